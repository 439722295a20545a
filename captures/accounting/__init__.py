"""The accounting: tables and keys of summary.json from decoded frames, deliveries and the oracle's answers.

`registry` explains how functions make tables, and how to add one. Functions take DataFrames with these
columns (others are ignored; times in ns since 1970 UTC; `seq` as a signed 64-bit number):

- frames: `captures.frames.columns.COLUMNS`
- sent: source, seq, sent_ns, message (text); one row for each message that an application sent
- deliveries: source, seq, node, app, t_ns; one row for each delivery
- oracle: source, seq, sent_ns, node, app, expected, decided; a missing row means not expected and decided
- links, trees, shortest_paths, and results of other functions: as in `captures.tables.catalogue`

Metrics: protocol paper, section 4.2. Experiment seconds: `captures.rundir.clock`.
"""
