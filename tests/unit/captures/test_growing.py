"""Growing captures as a stream follows them: batches, offsets, files that are replaced, unreadable, gone."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxFiles

from captures.datasource import streaming
from captures.datasource.options import ReadOptions, read_options
from captures.datasource.streaming import GrowingCaptures
from captures.datasource.views import CBCB_VIEWS, PCAP_VIEWS, View
from captures.frames import CaptureIdentity
from captures.pcap import PcapError
from captures.pcap.listing import FileEntry
from tests.support.capture_files import Packet, pcap

PACKETS = [(number, bytes([number]) * 60) for number in range(40)]
#: A file whose first byte cannot be read, by root neither.
_UNREADABLE = Path("/proc/self/mem")
Offset = dict[str, Any]


def _following(path: Path, **options: str) -> GrowingCaptures:
    chosen = read_options("pcap", {"path": str(path), "columns": "file,packet", **options}, PCAP_VIEWS)
    return GrowingCaptures(View(chosen, growing=True))


def _latest(following: GrowingCaptures, start: Offset, *limit: Any) -> Offset:
    """The offset after `start`, in the form in which Spark keeps it."""
    offset: Offset = json.loads(json.dumps(following.latestOffset(start, *limit)))
    return offset


def _rows(following: GrowingCaptures, start: Offset, end: Offset) -> list[tuple[str, int | None]]:
    """The stems of files and the numbers of packets between two offsets."""
    return sorted(
        (Path(row["file"]).stem, row["packet"])
        for group in following.partitions(start, end)
        for batch in following.read(group)
        for row in batch.to_pylist()
    )


def _batches(following: GrowingCaptures) -> list[list[tuple[str, int | None]]]:
    """The rows of each batch until the stream has reached the end."""
    limit, start, batches = following.getDefaultReadLimit(), following.initialOffset(), []
    while (end := _latest(following, start, limit)) != start:
        batches.append(_rows(following, start, end))
        start = end
    return batches


def _write(folder: Path, names: str, packets: list[Packet]) -> None:
    for name in names:
        (folder / f"{name}.pcap").write_bytes(pcap(packets))


def test_batches_of_few_files(tmp_path: Path) -> None:
    _write(tmp_path, "abc", PACKETS[:2])
    following = _following(tmp_path, maxFilesPerTrigger="2")
    assert following.getDefaultReadLimit() == ReadMaxFiles(2)
    assert [sorted({file for file, _ in batch}) for batch in _batches(following)] == [["a", "b"], ["c"]]
    assert len(following.latestOffset({}, ReadAllAvailable())) == 3


def test_batches_of_few_bytes_have_every_packet_once(tmp_path: Path) -> None:
    _write(tmp_path, "ab", PACKETS * 10)
    following = _following(tmp_path, maxBytesPerTrigger="8k")
    assert following.getDefaultReadLimit() == ReadMaxBytes(8192)
    batches = _batches(following)
    assert len(batches) > 5
    assert max(map(len, batches)) <= 2 * 8192 // 76 + 2
    expected = [(name, number) for name in "ab" for number in range(1, 401)]
    assert sorted(row for batch in batches for row in batch) == expected


def test_a_stream_of_what_is_available_now_ends_there(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap(PACKETS[:5])[:-3])
    following = _following(tmp_path)
    following.prepareForTriggerAvailableNow()
    _write(tmp_path, "ab", PACKETS)
    assert _batches(following) == [[("a", number) for number in range(1, 5)]]


@pytest.mark.parametrize("replaced", [pcap, lambda _: gzip.compress(b"x")])
def test_a_file_of_equal_size_is_another(tmp_path: Path, replaced: Callable[[list[Packet]], bytes]) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap(PACKETS[:10]))
    following = _following(tmp_path)
    end = _latest(following, {})
    assert following.latestOffset(end) == end
    size = path.stat().st_size
    path.unlink()
    assert following.latestOffset(end) == end
    path.write_bytes(replaced(PACKETS[10:20]).ljust(size, b"\0"))
    assert path.stat().st_size == size
    # At once, and for a restarted query.
    for reader in (following, _following(tmp_path)):
        with pytest.raises(PcapError, match=r"a\.pcap: has been replaced by another file"):
            reader.latestOffset(end)
    skipping = _following(tmp_path, ignoreCorruptFiles="true")
    assert skipping.latestOffset(end) == end


def test_a_file_that_has_shrunk_is_an_error(tmp_path: Path) -> None:
    _write(tmp_path, "a", PACKETS[:3])
    end = _latest(_following(tmp_path), {})
    _write(tmp_path, "a", PACKETS[:2])
    with pytest.raises(PcapError, match=r"a\.pcap: has shrunk from"):
        _following(tmp_path).latestOffset(end)


def test_an_offset_is_bounded_by_the_files_that_are_there(tmp_path: Path) -> None:
    """As `tcpdump -G` writes them and a job removes them: each file once, few at a time."""
    following = _following(tmp_path)
    end: Offset = {}
    read = 0
    for number in range(60):
        (tmp_path / f"{number}.pcap").write_bytes(pcap(PACKETS[:2]))
        (tmp_path / f"{number - 3}.pcap").unlink(missing_ok=True)
        start, end = end, _latest(following, end)
        read += len(_rows(following, start, end))
    assert read == 60 * 2
    # Three files, and the last that are gone.
    assert {Path(path).stem for path in end} == {str(number) for number in range(60 - 3 - 16, 60)}


def test_files_that_grew_last_are_kept_in_an_offset_when_all_are_gone(tmp_path: Path) -> None:
    following = _following(tmp_path)
    files = [tmp_path / f"{number:02}.pcap" for number in range(20)]
    for file in files:
        file.write_bytes(pcap(PACKETS[:1]))
    end = following.latestOffset({})
    # Those that came first grow last.
    for file in files[:4]:
        file.write_bytes(pcap(PACKETS[:2]))
    end = following.latestOffset(end)
    for file in files:
        file.unlink()
    assert sorted(following.latestOffset(end)) == list(map(str, files[:4] + files[8:]))


def test_unchanged_files_are_not_read_at_each_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write(tmp_path, "a", PACKETS[:2])
    following = _following(tmp_path)
    end = following.latestOffset({})
    # A file that has just been changed could be again at what is the same time for the file system.
    for step_s, reads in ((3600, True), (-3600, False)):
        monkeypatch.setattr(streaming, "_TIME_STEP_S", step_s)
        assert following.latestOffset(end) == end
        with monkeypatch.context() as patch:
            patch.setattr(streaming, "_walk", lambda *_: {"position": 9})
            assert (following.latestOffset(end) != end) is reads
    # From another offset there is more to read, and when it is changed.
    assert following.latestOffset({}) == end
    _write(tmp_path, "a", PACKETS[:3])
    assert following.latestOffset(end) != end


def test_a_growing_file_that_cannot_be_read_now_is_read_later(tmp_path: Path) -> None:
    _write(tmp_path, "g", PACKETS[:2])
    bad = tmp_path / "b.pcap"
    bad.symlink_to(_UNREADABLE)
    with pytest.raises(OSError, match="Input/output error"):
        _following(tmp_path).latestOffset({})
    following = _following(tmp_path, ignoreCorruptFiles="true", ignoreMissingFiles="true")
    start = following.latestOffset({})
    assert list(start) == [str(tmp_path / "g.pcap")]
    bad.unlink()
    _write(tmp_path, "b", PACKETS[:3])
    end = following.latestOffset(start)
    assert len(_rows(following, start, end)) == 3
    # A batch that cannot be read does not count as read; a file that is gone is not read later.
    bad.unlink()
    bad.symlink_to(_UNREADABLE)
    with pytest.raises(OSError, match="Input/output error"):
        _rows(following, start, end)
    bad.unlink()
    assert _rows(following, start, end) == []


def test_a_growing_file_may_go_while_it_is_sought(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write(tmp_path, "ab", PACKETS[:2])
    files = ReadOptions.files

    def listed(options: ReadOptions) -> list[FileEntry]:
        entries = files(options)
        (tmp_path / "a.pcap").unlink()
        return entries

    monkeypatch.setattr(ReadOptions, "files", listed)
    assert list(_following(tmp_path).latestOffset({})) == [str(tmp_path / "b.pcap")]


def test_a_growing_file_that_is_damaged_is_read_up_to_the_damage(tmp_path: Path) -> None:
    # The third record claims more than a snapshot length allows.
    content = pcap(PACKETS[:2]) + b"\xff" * 16 + pcap(PACKETS[2:5])[24:]
    path = tmp_path / "a.pcap"
    path.write_bytes(content)
    with pytest.raises(PcapError, match="claims 4294967295 bytes"):
        _following(path).latestOffset({})
    following = _following(path, ignoreCorruptFiles="true")
    end = following.latestOffset({})
    assert _rows(following, {}, end) == [("a", 1), ("a", 2)]
    path.write_bytes(content * 2)
    assert following.latestOffset(end) == end


def test_links_that_an_option_excludes_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "good.pcap").write_bytes(pcap(PACKETS))
    (tmp_path / "bad.pcap").write_text("no capture at all, but a text of some length")
    captures = {
        str(tmp_path / f"{name}.pcap"): CaptureIdentity(name, "link", link, link, link + 1)
        for link, name in enumerate(("good", "bad"))
    }
    options = read_options("cbcb", {"path": str(tmp_path), "links": "0"}, CBCB_VIEWS)
    view = View(options, captures, growing=True)
    assert list(GrowingCaptures(view).latestOffset({})) == [str(tmp_path / "good.pcap")]
