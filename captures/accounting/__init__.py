"""The accounting: from decoded frames, deliveries and the oracle's answers to tables. DataFrame to DataFrame.

Inputs (other columns are ignored; times in ns since 1970 UTC; `seq` as a signed 64-bit number):

- frames: `captures.frames.decoder.COLUMNS`
- sent: source, seq, sent_ns, message (text); one row a message that an application sent
- deliveries: source, seq, node, app, t_ns; one row a delivery
- oracle: source, seq, sent_ns, node, app, expected, decided; a missing row means not expected and decided
- links: link, u, v, cost, bandwidth_mbps (null: not limited)

Metrics: protocol paper, section 4.2. Experiment seconds: wall seconds since `start_ns`, times the scale.
"""
