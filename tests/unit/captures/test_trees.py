"""Trees from captured TABLE frames, and shortest paths over the topology."""

from __future__ import annotations

from pathlib import Path

from captures.accounting.run_tables import read_trees
from captures.frames import CaptureIdentity
from captures.rundir.capture_list import CapturedFile
from router.wire.codec import fragment
from router.wire.frames import BroadcastTable, Frame, FrameType
from router.wire.header import CONTROLLER_SOURCE, ROUTER_DESTINATION, node_address
from tests.support.capture_files import pcap
from tests.support.costs import memory_of
from tests.support.tree_entries import TreeEntry, table_of

TABLE = table_of(
    ((1, 11), (2, 12)),
    # Node 99 sends no messages: its tree is left out.
    (TreeEntry(5, 0, (1, 2), 0), TreeEntry(99, 2, (1,), 2), TreeEntry(11, 1, (2,), 1, off_tree=(2,))),
)


def _frames(epoch: int, table: BroadcastTable, source: bytes, mtu: int = 1500) -> list[bytes]:
    frame = Frame(FrameType.TABLE, 5, epoch, epoch, 1, table)
    return [ROUTER_DESTINATION + source + b"\x88\xb5" + payload for payload in fragment(frame, mtu)]


def _read(folder: Path, frames: list[bytes]) -> list[dict[str, object]]:
    (folder / "host-5.pcap").write_bytes(pcap([(n, data) for n, data in enumerate(frames, 1)]))
    captures = [
        CapturedFile(
            CaptureIdentity("host-5", "host", node=5), "host-5.pcap", "a", len(frames), len(frames), 0
        ),
        CapturedFile(CaptureIdentity("link-0-1", "link", 0, 0, 1), "not-read.pcap", "b", 0, 0, 0),
    ]
    rows: list[dict[str, object]] = read_trees(captures, folder, [5, 11]).to_pylist()
    return rows


def test_a_table_in_fragments_among_other_frames(tmp_path: Path) -> None:
    whole = _frames(3, TABLE, CONTROLLER_SOURCE)
    damaged = whole[0][:-3] + b"\xff" * 3
    pieces = _frames(4, TABLE, CONTROLLER_SOURCE, mtu=60)
    assert len(pieces) > 1
    # A router cannot tell itself where trees are; what is sent again is known; a short frame is none.
    frames = [_frames(2, TABLE, node_address(5))[0], damaged, whole[0][:15], *whole, *whole, *pieces]
    rows = _read(tmp_path, frames)
    assert [(row["epoch"], row["source"]) for row in rows] == [(3, 5), (3, 11), (4, 5), (4, 11)]
    children = {"children": [11, 12], "child_interfaces": [1, 2], "off_tree": []}
    parent = {"parent": None, "parent_interface": 0}
    assert rows[0] == {"epoch": 3, "node": 5, "source": 5, "told_ns": 4} | parent | children
    assert (rows[1]["parent"], rows[1]["children"], rows[1]["off_tree"]) == (11, [12], [12])


def test_no_table_no_tree(tmp_path: Path) -> None:
    assert _read(tmp_path, []) == []
    # Spark accepts no column without a chunk.
    assert [column.num_chunks for column in read_trees([], tmp_path, [5]).columns] == [1] * 9


def test_rows_of_one_capture_at_a_time_are_python_objects(tmp_path: Path) -> None:
    sources = range(1, 3001)
    table = table_of(((1, 11), (2, 12)), (TreeEntry(source, 1, (2,), 1) for source in sources))
    frames = enumerate(_frames(1, table, CONTROLLER_SOURCE, mtu=9000))
    (tmp_path / "host.pcap").write_bytes(pcap(list(frames)))
    capture = CapturedFile(CaptureIdentity("host-5", "host", node=5), "host.pcap", "a", 1, 1, 0)

    def peak(captures: int) -> int:
        trees, _, most = memory_of(lambda: read_trees([capture] * captures, tmp_path, sources))
        assert trees.num_rows == captures * len(sources)
        return most

    # The reader of a capture takes most of either.
    assert peak(8) < 1.3 * peak(1)
