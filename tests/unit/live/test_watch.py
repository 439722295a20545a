"""The watcher counts each frame of growing captures once."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from captures.pcap.formats import PcapError
from captures.rundir.layout import RunLayout
from testbed.live.state import SLOT_NS, LinkCount
from testbed.live.watch import growing_captures
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
    expected = _totals(count for each in growing_captures(RunLayout(run)) for count in each.read())
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
        found += [count for each in captures for count in each.read()]
    assert _totals(found) == expected
    assert sum(each.read() != [] for each in captures) == 0


def test_a_damaged_capture_is_named(tmp_path: Path) -> None:
    run = good_run().write(tmp_path / "run")
    damaged = min((run / "pcap").glob("link-*.pcap"))
    damaged.write_bytes(b"no capture" * 10)
    with pytest.raises(PcapError, match=re.escape(str(damaged))):
        for each in growing_captures(RunLayout(run)):
            each.read()
