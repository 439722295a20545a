"""Captures that are still being written, as a stream of micro-batches.

The offset of a stream says, for each file, behind which whole record the next batch begins, and what its
reader must know of what came before (`FilePart`). All of it is in Spark's checkpoint: a query that starts
again reads on where its last batch ended. Files may appear at any time; none may shrink or be replaced.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from captures.datasource.options import ReadOptions
from captures.datasource.views import View
from captures.frames.parts import FilePart, PartState, as_tuples, group_parts
from captures.pcap.listing import FileEntry
from captures.pcap.opening import is_compressed, open_bytes
from captures.pcap.reader import PcapError, PcapReader
from captures.spark.workers import freeze_new_imports

#: Offset of a stream: path -> position, context and carry of the part that comes next; how the file begins.
Offset = dict[str, dict[str, Any]]
#: So many of the first bytes of a file tell it from one that takes its place.
_BEGINNING = 4096
#: File systems keep times in steps of up to so many seconds: a file may change again at the same time.
_TIME_STEP_S = 2


class PartGroup(InputPartition):
    """The parts of files that one task reads."""

    def __init__(self, parts: Sequence[FilePart]) -> None:
        super().__init__(None)
        self.parts = tuple(parts)


class GrowingCaptures(DataSourceStreamReader):
    """Reads files that grow: batches end behind the last record that is whole."""

    def __init__(self, options: ReadOptions, view: View) -> None:
        self._options = options
        # A batch that cannot be read fails and is read again: its packets would not come in another.
        self._view = replace(view, skip_bad_files=False)
        self._reached: Offset = {}
        # Path -> what a file was like that held nothing beyond a position.
        self._idle: dict[str, tuple[FileEntry, int]] = {}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Nothing has been read of any file."""
        return {}

    def latestOffset(  # noqa: N802 - Spark's name
        self,
        start: Offset | None = None,
        limit: object = None,  # noqa: ARG002 - Spark's signature
    ) -> Offset:
        """How far the files have been written, from `start` on (without one: from what was reached before).

        A file that cannot be read, if such are left out, stays where it is.

        Raises:
            PcapError: a file is no capture, is compressed, has shrunk, or is another than before.
            OSError: a path of the options does not exist, or a file cannot be read.
        """
        reached = dict(self._reached if start is None else start)
        for entry in self._options.files():
            if not self._view.needs(FilePart(entry.path)):
                continue
            since = reached.get(entry.path)
            state = (entry, since["position"] if since is not None else 0)
            if self._idle.get(entry.path) == state:
                continue
            now_s = time.time()
            try:
                following = _walk(entry, since, self._options.skip_bad_files)
            except FileNotFoundError:
                # It has gone since it was listed.
                continue
            except (PcapError, OSError):
                if not self._options.skip_bad_files:
                    raise
                continue
            if following is not None:
                reached[entry.path] = following
            elif entry.changed_ns is not None and entry.changed_ns < (now_s - _TIME_STEP_S) * 1e9:
                self._idle[entry.path] = state
        self._reached = reached
        return reached

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """The parts between two offsets, in groups of about equal size."""
        self._reached = end
        parts = []
        for path, to in sorted(end.items()):
            since = start.get(path, {"position": None, "context": [], "carry": []})
            if since["position"] != to["position"]:
                parts.append(
                    FilePart(
                        path,
                        since["position"],
                        to["position"],
                        as_tuples(since["context"]),  # type: ignore[arg-type]
                        as_tuples(since["carry"]),  # type: ignore[arg-type]
                        to["position"] - (since["position"] or 0),
                    )
                )
        return [PartGroup(group) for group in group_parts(parts, self._options.partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of the parts of a group."""
        assert isinstance(partition, PartGroup)
        for part in partition.parts:
            try:
                yield from self._view.read(part)
            except (PcapError, FileNotFoundError):
                # It has been removed or replaced: there is nothing to be read again.
                if not self._options.skip_bad_files:
                    raise
        freeze_new_imports()

    def commit(self, end: Offset) -> None:
        """Nothing is kept that a batch that has been taken would set free."""


def _walk(entry: FileEntry, since: dict[str, Any] | None, up_to_damage: bool) -> dict[str, Any] | None:
    """The offset behind the last whole record of a file; None: it holds nothing beyond `since`.

    Raises:
        PcapError: as `latestOffset`; also if it is damaged, unless what precedes the damage is wanted.
    """
    path = entry.path
    position = None if since is None else since["position"]
    if position is not None and entry.size < position:
        raise PcapError(f"{path}: has shrunk from {position} to {entry.size} bytes; expected it to grow")
    if since is None and entry.size and is_compressed(path):
        raise PcapError(f"{path}: is compressed; only plain files can be followed while they grow")
    if since is not None and since["beginning"] != _beginning(path, since["position"]):
        raise PcapError(f"{path}: is another file than before; expected it to grow, not to be replaced")
    if entry.size == position:
        return None
    context = () if since is None else tuple(since["context"])
    carry: Any = () if since is None else as_tuples(since["carry"])
    state = PartState()
    state.fragments.carry(path, carry)
    reader = PcapReader(path, link_type=None, start=position, context=context, growing=True)
    for block in reader.blocks():
        state.see(block)
    if reader.defect is not None and not up_to_damage:
        raise PcapError(f"{path}: {reader.defect}")
    if reader.position == (position or 0):
        return None
    return {
        "position": reader.position,
        "context": reader.context,
        "carry": state.fragments.held(),
        "beginning": _beginning(path, reader.position),
    }


def _beginning(path: str, position: int) -> str:
    """A digest of the first bytes of a file, of which `position` had been written then."""
    first = bytearray(min(position, _BEGINNING))
    with open_bytes(path) as file:
        file.read_into(memoryview(first))
    return hashlib.sha256(first).hexdigest()[:16]
