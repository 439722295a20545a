"""Growing captures as a stream follows them: replaced, unreadable, gone, or unchanged."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from captures.datasource import streaming
from captures.datasource.options import ReadOptions, read_options
from captures.datasource.packet_view import PACKET_COLUMNS
from captures.datasource.streaming import GrowingCaptures
from captures.datasource.views import CBCB_VIEWS, FRAMES, PACKETS, PCAP_VIEWS, View
from captures.frames import CaptureIdentity
from captures.pcap import PcapError
from captures.pcap.listing import FileEntry
from tests.support.capture_files import Packet, pcap

PACKETS_MADE = [(number, bytes([number]) * 40) for number in range(20)]


def _following(path: Path, **given: str) -> GrowingCaptures:
    options = read_options("pcap", {"path": str(path), **given}, PCAP_VIEWS)
    return GrowingCaptures(
        options, View(PACKETS, tuple(PACKET_COLUMNS), options.skip_bad_files, growing=True)
    )


@pytest.mark.parametrize("replaced", [pcap, lambda _: gzip.compress(b"x")])
def test_a_file_of_the_same_size_is_another(
    tmp_path: Path, replaced: Callable[[list[Packet]], bytes]
) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap(PACKETS_MADE[:10]))
    following = _following(tmp_path)
    end = json.loads(json.dumps(following.latestOffset({})))
    assert following.latestOffset(end) == end
    size = path.stat().st_size
    path.unlink()
    assert following.latestOffset(end) == end
    path.write_bytes(replaced(PACKETS_MADE[10:]).ljust(size, b"\0"))
    assert path.stat().st_size == size
    # At once, and for a restarted query.
    for reader in (following, _following(tmp_path)):
        with pytest.raises(PcapError, match=r"a\.pcap: has been replaced by another file"):
            reader.latestOffset(end)
    skipping = _following(tmp_path, ignoreCorruptFiles="true")
    assert skipping.latestOffset(end) == end


def test_an_offset_is_bounded_by_the_files_that_are_there(tmp_path: Path) -> None:
    """As `tcpdump -G` writes them and a job removes them: each file once, few at a time."""
    following = _following(tmp_path)
    end: dict[str, Any] = {}
    read = 0
    for number in range(60):
        (tmp_path / f"{number}.pcap").write_bytes(pcap(PACKETS_MADE[:2]))
        (tmp_path / f"{number - 3}.pcap").unlink(missing_ok=True)
        start, end = end, json.loads(json.dumps(following.latestOffset(end)))
        groups = following.partitions(start, end)
        read += sum(batch.num_rows for group in groups for batch in following.read(group))
    assert read == 60 * 2
    # Three files, and the last that are gone.
    assert {Path(path).stem for path in end} == {str(number) for number in range(60 - 3 - 16, 60)}


def test_files_that_grew_last_are_kept_in_an_offset_when_all_are_gone(tmp_path: Path) -> None:
    following = _following(tmp_path)
    files = [tmp_path / f"{number:02}.pcap" for number in range(20)]
    for file in files:
        file.write_bytes(pcap(PACKETS_MADE[:1]))
    end = following.latestOffset({})
    # Those that came first grow last.
    for file in files[:4]:
        file.write_bytes(pcap(PACKETS_MADE[:2]))
    end = following.latestOffset(end)
    for file in files:
        file.unlink()
    assert sorted(following.latestOffset(end)) == list(map(str, files[:4] + files[8:]))


def test_files_that_do_not_change_are_not_read_at_each_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap(PACKETS_MADE[:2]))
    walked: list[str] = []
    walk = streaming._walk

    def counting(entry: FileEntry, *rest: Any) -> dict[str, Any] | None:
        walked.append(entry.path)
        return walk(entry, *rest)

    monkeypatch.setattr(streaming, "_walk", counting)
    # Whatever time passes here.
    monkeypatch.setattr(streaming, "_TIME_STEP_S", 3600)
    following = _following(tmp_path)
    end = following.latestOffset({})
    # It has just been changed, and could be again at what is the same time for the file system.
    for _ in range(2):
        assert following.latestOffset(end) == end
    assert len(walked) == 3
    monkeypatch.setattr(streaming, "_TIME_STEP_S", -3600)
    for _ in range(3):
        assert following.latestOffset(end) == end
    assert len(walked) == 4
    # From another offset there is more to read, and when it is changed.
    assert following.latestOffset({}) == end
    path.write_bytes(pcap(PACKETS_MADE[:3]))
    assert following.latestOffset(end) != end
    assert len(walked) == 6


def test_a_growing_file_that_cannot_be_read_now_is_read_later(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.pcap", tmp_path / "bad.pcap"
    good.write_bytes(pcap(PACKETS_MADE[:2]))
    # A file whose first byte cannot be read, by root neither.
    unreadable = Path("/proc/self/mem")
    bad.symlink_to(unreadable)
    with pytest.raises(OSError, match="Input/output error"):
        _following(tmp_path).latestOffset({})
    following = _following(tmp_path, ignoreCorruptFiles="true", ignoreMissingFiles="true")
    start = following.latestOffset({})
    assert list(start) == [str(good)]
    bad.unlink()
    bad.write_bytes(pcap(PACKETS_MADE[:3]))
    end = following.latestOffset(start)
    (group,) = following.partitions(start, end)
    assert sum(batch.num_rows for batch in following.read(group)) == 3
    # A batch that cannot be read does not count as read; a file that is gone is not read later.
    bad.unlink()
    bad.symlink_to(unreadable)
    with pytest.raises(OSError, match="Input/output error"):
        list(following.read(group))
    bad.unlink()
    assert list(following.read(group)) == []


def test_a_growing_file_may_go_while_it_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a.pcap", "b.pcap"):
        (tmp_path / name).write_bytes(pcap(PACKETS_MADE[:2]))
    following = _following(tmp_path)
    files = ReadOptions.files

    def listed(options: ReadOptions) -> list[FileEntry]:
        entries = files(options)
        (tmp_path / "a.pcap").unlink()
        return entries

    monkeypatch.setattr(ReadOptions, "files", listed)
    assert list(following.latestOffset({})) == [str(tmp_path / "b.pcap")]


def test_links_that_are_not_wanted_are_not_looked_at(tmp_path: Path) -> None:
    (tmp_path / "good.pcap").write_bytes(pcap(PACKETS_MADE))
    (tmp_path / "bad.pcap").write_text("no capture at all, but a text of some length")
    captures = {
        str(tmp_path / f"{name}.pcap"): CaptureIdentity(name, "link", link, link, link + 1)
        for link, name in enumerate(("good", "bad"))
    }
    options = read_options("cbcb", {"path": str(tmp_path), "links": "0"}, CBCB_VIEWS)
    view = View(FRAMES, ("type",), growing=True, captures=captures, bounds=options.bounds)
    assert list(GrowingCaptures(options, view).latestOffset({})) == [str(tmp_path / "good.pcap")]
