"""The inputs of the live view: frames of growing captures, and deliveries judged as the logs grow."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from captures.pcap import PcapError
from captures.rundir import RunLayout
from captures.rundir.applications import read_applications
from captures.rundir.controller import read_controller
from captures.rundir.inputs import read_topology
from testbed.experiments.config.load import find_experiment, load_experiment
from testbed.results.live.state import SLOT_NS, Deliveries, LinkCount, LiveState
from testbed.results.live.watch import Watcher, growing_captures
from testbed.results.oracle.decide import judge
from testbed.results.oracle.history import read_history
from tests.support.applications import (
    delivery_event as delivery,
    message_event as message,
    predicate_event as predicate,
)
from tests.support.polling import TIMEOUT, poll
from tests.support.run_folder import good_run
from tests.support.simulated import simulated
from topos.generators import line


def _totals(found: Iterable[LinkCount]) -> dict[tuple[int, str], tuple[int, int]]:
    frames: Counter[tuple[int, str]] = Counter()
    size: Counter[tuple[int, str]] = Counter()
    for link, kind, slot, number, length in found:
        assert slot > 0 and slot * SLOT_NS < 1 << 63
        frames[link, kind] += number
        size[link, kind] += length
    return {key: (number, size[key]) for key, number in frames.items()}


def test_each_frame_of_growing_captures_is_counted_once(tmp_path: Path) -> None:
    run = good_run().write(tmp_path / "run")
    expected = _totals(
        count for each in growing_captures(RunLayout(run)) for counts in each() for count in counts
    )
    assert {kind for _, kind in expected} == {"MSG", "RA"}
    whole = {file: file.read_bytes() for file in sorted((run / "pcap").glob("*.pcap"))}
    # While a run goes on, the list of captures does not exist, nor perhaps a file.
    (run / "capture.json").unlink()
    for file in whole:
        file.unlink()
    found: list[LinkCount] = []
    captures = growing_captures(RunLayout(run))
    for part in (0.0, 0.01, 0.3, 0.7, 1.0):
        for file, content in whole.items():
            with file.open("ab") as growing:
                growing.write(content[growing.tell() : round(part * len(content))])
        found += [count for each in captures for counts in each() for count in counts]
    assert _totals(found) == expected
    assert not any(counts for each in captures for counts in each())


def test_a_damaged_capture_is_named(tmp_path: Path) -> None:
    run = good_run().write(tmp_path / "run")
    damaged = min((run / "pcap").glob("link-*.pcap"))
    damaged.write_bytes(b"no capture" * 10)
    with pytest.raises(PcapError, match=re.escape(str(damaged))):
        for each in growing_captures(RunLayout(run)):
            list(each())


def test_captures_are_read_although_a_log_is_damaged(tmp_path: Path) -> None:
    layout = RunLayout(good_run().write(tmp_path / "run"))
    shutil.copy(find_experiment("ring5"), layout.experiment)
    capture = min(layout.captures_folder.glob("link-*.pcap"))
    content = capture.read_bytes()
    capture.unlink()
    state = LiveState(layout.path)
    with Watcher(state):
        with layout.controller_log.open("a") as log:
            log.write("no JSON\n")
        poll(lambda: state.snapshot()["stream"]["state"] == "failed" or None, TIMEOUT, "the log is refused")
        before = state.snapshot()["bytes"]
        capture.write_bytes(content)
        poll(lambda: state.snapshot()["bytes"] > before or None, TIMEOUT, "the capture is read")
    assert str(layout.controller_log) in state.snapshot()["stream"]["detail"]


S = 10**9
WINDOW_S = 1.0


def test_a_message_is_judged_when_its_answer_is_final_and_deliveries_come_before_and_after() -> None:
    found = Deliveries(WINDOW_S, line(3))
    found.take_applications([predicate(node, 1 * S, "a = 1") for node in (1, 2)])
    found.take_applications([message(1, 10 * S), delivery(1, 1, 10 * S + 5), message(2, 10 * S, value=2)])
    found.take_applications([delivery(1, 2, 10 * S), delivery(1, 2, 10 * S)])
    found.judge_until(11 * S)
    assert (found.sent, found.judged, found.expected, found.duplicates, found.spurious) == (2, 0, 0, 1, 0)
    found.judge_until(13 * S)
    assert (found.judged, found.expected, found.made, found.spurious) == (2, 2, 1, 1)
    assert [(seq, application.node) for _, seq, application in found.missing] == [(1, 2)]
    found.take_applications([delivery(2, 1, 14 * S), delivery(2, 2, 14 * S)])
    assert (len(found.missing), found.made, found.spurious) == (0, 2, 2)


def test_a_run_followed_line_by_line_ends_as_its_oracle_says(tmp_path: Path) -> None:
    experiment = load_experiment(find_experiment("recovery"))
    run = simulated(experiment, tmp_path)
    window_s = experiment.oracle.in_flight_window_s
    found = Deliveries(window_s, read_topology(run))
    applications = [(recorded.event["t_ns"], recorded) for _, recorded in read_applications(run)]
    controller = [(event["t_ns"], event) for _, event in read_controller(run.controller_log)]
    for at_ns in sorted({at_ns for at_ns, _ in (*applications, *controller)}):
        found.take_controller([event for t_ns, event in controller if t_ns == at_ns])
        found.take_applications([recorded for t_ns, recorded in applications if t_ns == at_ns])
        found.judge_until(at_ns)
    found.judge_until(2**62)

    judgements = list(judge(read_history(run), window_s))
    decided = [one for one in judgements if one["decided"] and one["expected"]]
    assert found.judged == found.sent > 100
    assert found.expected == len(decided) > 50
    assert found.undecided == sum(not one["decided"] for one in judgements) > 0
    assert (len(found.missing), found.spurious, found.duplicates) == (0, 0, 0)
