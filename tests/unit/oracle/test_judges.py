"""The judgement of a run by its experiment: what the oracle is given of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from captures.rundir.oracle import read_oracle
from testbed.experiments.config.hop_limit import load_checked
from tests.support.simulated import judged_run

#: Node 0 receives from all others; without link 0-1, node 1 is five hops away.
_RING = """
duration_s = 40
[topology]
generator = "ring"
nodes = 6
[workload]
senders_percent = 0
receivers_percent = 0
[[events]]
at_s = 0
action = "set_predicate"
node = 0
predicate = "x > 0"
[[events]]
at_s = 5
action = "link_down"
link = [0, 1]
""" + "".join(
    f"""
[[events]]
at_s = {at_s}
action = "send_message"
node = {node}
message = "x = {at_s}"
"""
    for at_s, node in ((2, 1), (20, 1), (21, 2), (22, 3))
)


@pytest.mark.parametrize(("hop_limit", "expected"), [(3, [1, 3]), (4, [1, 2, 3]), (5, [1, 1, 2, 3])])
def test_no_delivery_is_expected_that_the_hop_limit_ends(
    tmp_path: Path, hop_limit: int, expected: list[int]
) -> None:
    path = tmp_path / "ring.toml"
    path.write_text(_RING)
    experiment = load_checked(path, {"protocol.hop_limit": str(hop_limit)})
    run = judged_run(experiment, tmp_path, "none")
    answers = [answer for _, answer in read_oracle(run)]
    assert all(answer["decided"] for answer in answers)
    assert sorted(answer["source"] for answer in answers if answer["expected"]) == expected
