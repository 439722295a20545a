"""The watcher counts each frame of growing captures once."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from captures.pcap import PcapError
from captures.rundir import RunLayout
from testbed.experiments.config.load import find_experiment
from testbed.results.live.state import SLOT_NS, LinkCount
from testbed.results.live.watch import Watcher, growing_captures, open_state
from tests.support.polling import TIMEOUT, poll
from tests.support.run_folder import good_run


def _totals(found: Iterable[LinkCount]) -> dict[tuple[int, str], tuple[int, int]]:
    frames: Counter[tuple[int, str]] = Counter()
    size: Counter[tuple[int, str]] = Counter()
    for each in found:
        assert each.slot > 0 and each.slot * SLOT_NS < 1 << 63
        frames[each.link, each.type] += each.frames
        size[each.link, each.type] += each.bytes
    return {key: (number, size[key]) for key, number in frames.items()}


def test_each_frame_of_growing_captures_is_counted_once(tmp_path: Path) -> None:
    run = good_run().write(tmp_path / "run")
    expected = _totals(
        count for each in growing_captures(RunLayout(run)) for counts in each.read() for count in counts
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
        found += [count for each in captures for counts in each.read() for count in counts]
    assert _totals(found) == expected
    assert not any(counts for each in captures for counts in each.read())


def test_a_damaged_capture_is_named(tmp_path: Path) -> None:
    run = good_run().write(tmp_path / "run")
    damaged = min((run / "pcap").glob("link-*.pcap"))
    damaged.write_bytes(b"no capture" * 10)
    with pytest.raises(PcapError, match=re.escape(str(damaged))):
        for each in growing_captures(RunLayout(run)):
            list(each.read())


def test_captures_are_read_although_a_log_is_damaged(tmp_path: Path) -> None:
    layout = RunLayout(good_run().write(tmp_path / "run"))
    shutil.copy(find_experiment("ring5"), layout.experiment)
    capture = min(layout.captures_folder.glob("link-*.pcap"))
    content = capture.read_bytes()
    capture.unlink()
    state = open_state(layout.path)
    with Watcher(state):
        with layout.controller_log.open("a") as log:
            log.write("no JSON\n")
        poll(lambda: state.snapshot()["stream"]["state"] == "failed" or None, TIMEOUT, "the log is refused")
        before = state.snapshot()["bytes"]
        capture.write_bytes(content)
        poll(lambda: state.snapshot()["bytes"] > before or None, TIMEOUT, "the capture is read")
    assert str(layout.controller_log) in state.snapshot()["stream"]["detail"]
