"""Captures that are being written, as a stream of micro-batches.

The offset of a stream holds, for each file, the end of the last whole record that was read, and the state
that the reader of the next record needs (`FilePart`). Spark keeps offsets in its checkpoint: a query that is
restarted continues where its last batch ended. Files may appear at any time; none may shrink or be replaced.
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

#: Offset of a stream: path -> position, context and carry of the next part; digest of the file's first bytes.
Offset = dict[str, dict[str, Any]]
#: Number of first bytes of a file whose digest distinguishes it from a file that replaces it.
_BEGINNING = 4096
#: Greatest resolution of file times in seconds: within it, a file may change without a new time.
_TIME_STEP_S = 2


class PartGroup(InputPartition):
    """The parts of files that one task reads."""

    def __init__(self, parts: Sequence[FilePart]) -> None:
        super().__init__(None)
        self.parts = tuple(parts)


class GrowingCaptures(DataSourceStreamReader):
    """Reads files that grow.

    Batches end behind the last whole record.
    """

    def __init__(self, options: ReadOptions, view: View) -> None:
        self._options = options
        # A batch that cannot be read must fail, so that Spark reads it again: no later batch has its packets.
        self._view = replace(view, skip_bad_files=False)
        self._reached: Offset = {}
        # Path -> entry and position of a file that held nothing beyond the position.
        self._idle: dict[str, tuple[FileEntry, int]] = {}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """The offset before the first record of any file."""
        return {}

    def latestOffset(  # noqa: N802 - Spark's name
        self,
        start: Offset | None = None,
        limit: object = None,  # noqa: ARG002 - Spark's signature
    ) -> Offset:
        """The end of the whole records in the files.

        With `skip_bad_files`, a file that cannot be read keeps its position.

        Args:
            start: offset from which to walk; None: the offset of the last call.

        Raises:
            PcapError: a file is no capture, is compressed, has shrunk, or was replaced.
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
                reached_now = _walk(entry, since, self._options.skip_bad_files)
            except FileNotFoundError:
                # It was removed after it was listed.
                continue
            except (PcapError, OSError):
                if not self._options.skip_bad_files:
                    raise
                continue
            if reached_now is not None:
                reached[entry.path] = reached_now
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
                # It was removed or replaced: to read the batch again would not help.
                if not self._options.skip_bad_files:
                    raise
        freeze_new_imports()

    def commit(self, end: Offset) -> None:
        """Does nothing: no resource is held for a batch."""


def _walk(entry: FileEntry, since: dict[str, Any] | None, up_to_damage: bool) -> dict[str, Any] | None:
    """The offset behind the last whole record of a file; None: the file holds nothing beyond `since`.

    Args:
        up_to_damage: whether to read a damaged file up to the damage.

    Raises:
        PcapError: as `latestOffset`, or the file is damaged, unless `up_to_damage`.
    """
    path = entry.path
    position = None if since is None else since["position"]
    if position is not None and entry.size < position:
        raise PcapError(f"{path}: has shrunk from {position} to {entry.size} bytes; expected it to grow")
    if since is None and entry.size and is_compressed(path):
        raise PcapError(f"{path}: is compressed; only plain files can be followed while they grow")
    if since is not None and since["beginning"] != _beginning(path, since["position"]):
        raise PcapError(f"{path}: has been replaced by another file; expected the file to grow")
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
    """A digest of the first bytes of a file, at most of the first `position` bytes."""
    first = bytearray(min(position, _BEGINNING))
    with open_bytes(path) as file:
        file.read_into(memoryview(first))
    return hashlib.sha256(first).hexdigest()[:16]
