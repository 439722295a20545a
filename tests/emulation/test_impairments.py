"""Links whose properties change while they are in use: by events, by commands, and as measured afterwards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from captures.rundir import RunLayout
from captures.rundir.applications import read_applications
from captures.rundir.inputs import MANIFEST, Calibration
from router.runtime import commands
from testbed.emulation.control.running import Running
from testbed.machine.probes import kernel_features
from tests.support.command import Cbcb, Held, output_of
from tests.support.polling import TIMEOUT, poll

pytestmark = pytest.mark.emulation

#: Predicates are declared over links that lose frames, and messages are sent when the links lose none.
_FILE = Path(__file__).with_name("impaired.toml").read_text()
_DECLARED = 60
#: Messages of frames of 650 bytes: they keep a link of 2 Mbit/s full for more than a quarter of a second, and
#: fit into the buffer of the socket by which ovs-vswitchd sends.
_FLOOD, _TEXT = 140, "x" * 560


def _experiment() -> str:
    declared = (
        f'\n[[events]]\nat_s = {1.1 + 0.2 * number}\naction = "set_predicate"\nnode = {number % 3}\n'
        f'app = "board"\npredicate = "z = {number}"\n'
        for number in range(_DECLARED)
    )
    return _FILE + "".join(declared)


def _sent(run: RunLayout) -> int:
    return sum(each.event["event"] == "send_message" for _, each in read_applications(run))


def _of(rows: Sequence[Calibration], name: str) -> list[Calibration]:
    return [row for row in rows if row["property"] == name]


def _ways(rows: Sequence[Calibration]) -> list[tuple[int, int]]:
    return sorted((row["sender"], row["receiver"]) for row in rows)


def _mean(rows: Sequence[Calibration]) -> float:
    """The share in percent of all frames, of rows of the same property."""
    return sum((row["measured"] or 0) * row["frames"] for row in rows) / sum(row["frames"] for row in rows)


def test_properties_that_events_and_commands_change_are_measured_beside_those_required(
    cbcb: Callable[..., Cbcb], tmp_path: Path
) -> None:
    kernel = kernel_features()
    if kernel.netem or not (kernel.tbf and kernel.nft_dup):
        pytest.skip("this kernel has netem, or neither TBF nor nftables egress with dup")
    file = tmp_path / "impaired.toml"
    file.write_text(_experiment())
    held = Held(cbcb("run", str(file), "--hold", "--no-account"))
    held.wait()
    run = held.folder
    planned = sum('"send_message"' in line for line in run.workload.read_text().splitlines())
    poll(lambda: _sent(run) == planned or None, 120, "the workload has sent all its messages")

    for link, setting in ((("0", "1"), "bandwidth=2"), (("1", "2"), "duplicate=30")):
        output_of("link", "--run", held.tag, *link, "set", setting)
    network = Running.find(held.tag)
    with network.client(1, "sink") as sink:
        sink.set_predicate("y > 0")
        network.settle()
        with network.client(0, "flood") as flood:
            for number in range(1, _FLOOD + 1):
                flood.start(commands.send_message(f'y = {number}, text = "{_TEXT}"'))
        got = sink.deliveries(TIMEOUT)
        assert {next(got).attributes["y"] for _ in range(_FLOOD)} == set(range(1, _FLOOD + 1))
    with network.client(2, "copied") as copied, network.client(1, "copying") as copying:
        copied.set_predicate("w > 0")
        network.settle()
        for number in range(1, 201):
            copying.start(commands.send_message(f"w = {number}"))
    summary = held.end()

    rows = MANIFEST.read(run)["links"]
    print(*rows, sep="\n")
    every_way = [(u, v) for u in range(3) for v in range(3) if u != v]
    losses = _of(rows, "loss_percent")
    assert _ways(losses) == every_way
    assert {row["required"] for row in losses} == {20.0}
    # Of some 350 control frames; five standard deviations.
    assert sum(row["frames"] for row in losses) > 150
    assert 9 < _mean(losses) < 31
    rates = _of(rows, "bandwidth_mbps")
    assert _ways(rates) == [(0, 1), (1, 0)]
    full, idle = sorted(rates, key=lambda row: row["sender"])
    assert (full["required"], idle["required"], idle["measured"]) == (2.0, 2.0, None)
    assert full["measured"] is not None
    assert 1.9 < full["measured"] < 2.05
    doubled = _of(rows, "duplicate_percent")
    assert _ways(doubled) == [(1, 2), (2, 1)]
    assert {row["required"] for row in doubled} == {30.0}
    busy = max(doubled, key=lambda row: row["frames"])
    assert (busy["sender"], busy["frames"] >= 200) == (1, True)
    assert 13 < (busy["measured"] or 0) < 47
    # From the event to the event, from the command to the end.
    assert len({(row["since_ns"], row["until_ns"]) for row in losses}) == 1
    for row in (*rates, *doubled):
        assert losses[0]["until_ns"] < row["since_ns"] < row["until_ns"]

    assert summary["false_negatives_after_convergence"] == 0
    for name, account in summary["reconciliation"].items():
        assert (account["differences"], account["found"] > 0) == ([], True), name
