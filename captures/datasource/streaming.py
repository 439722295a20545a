"""Captures that are being written, as a stream of micro-batches.

The offset of a stream holds, for each file, the end of the last whole record that was read, and the state
that the reader of the next record needs (`FilePart`). Spark keeps offsets in its checkpoint: a query that is
restarted continues where its last batch ended. Files may appear and go at any time; none may shrink or be
replaced. An offset has the files that are there, and the last few that are not.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from captures.datasource.options import errors_in_one_line
from captures.datasource.views import MalformedPacketError, View
from captures.frames.parts import CapturedFragments, Carried, FilePart, group_parts
from captures.pcap import PcapError
from captures.pcap.listing import FileEntry
from captures.pcap.opening import is_compressed, open_bytes
from captures.pcap.reader import DEFAULT_BLOCK_BYTES, PcapReader
from captures.spark.workers import freeze_new_imports

try:
    from pyspark.sql.streaming import datasource as limits
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
except ImportError:
    # Before Spark 4.2, batches have no limit that Spark passes on.
    limits = None

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """A name that later versions of Spark have."""


#: Offset of a stream: path -> position, context and carry of the next part; number of packets before it;
#: digest of the file's first bytes.
Offset = dict[str, dict[str, Any]]
#: Of a file of which nothing was read.
_UNREAD: dict[str, Any] = {"position": None, "context": [], "carry": [], "packets": 0}
#: Number of first bytes of a file whose digest distinguishes it from a file that replaces it.
_BEGINNING = 4096
#: Files of an offset that are not there any more, by which it notices that one is replaced.
_MOST_GONE = 16
#: Greatest resolution of file times in seconds: within it, a file may change without a new time.
_TIME_STEP_S = 2
#: A walk with a limit reads at least so much at once.
_LEAST_BLOCK_BYTES = 4096


class PartGroup(InputPartition):
    """The parts of files that one task reads."""

    def __init__(self, parts: Sequence[FilePart]) -> None:
        super().__init__(None)
        self.parts = tuple(parts)


class GrowingCaptures(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads files that grow.

    Batches end behind the last whole record, or where the limit of a batch is reached.
    """

    def __init__(self, view: View) -> None:
        self._options = view.options
        # A batch that cannot be read must fail, so that Spark reads it again: no later batch has its packets.
        self._view = view.changed(ignore_corrupt_files=False, ignore_missing_files=False)
        self._reached: Offset = {}
        # Path -> entry and position of a file that held nothing beyond the position.
        self._idle: dict[str, tuple[FileEntry, int]] = {}
        # Path -> size of the file; None: the stream follows whatever appears.
        self._last: dict[str, int] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """The offset before the first record of any file."""
        return {}

    def getDefaultReadLimit(self) -> Any:  # noqa: N802 - Spark's name
        """The limit of a batch, which Spark passes to `latestOffset`."""
        if self._options.most_bytes is not None:
            return limits.ReadMaxBytes(self._options.most_bytes)
        if self._options.max_files_per_trigger is not None:
            return limits.ReadMaxFiles(self._options.max_files_per_trigger)
        return limits.ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Limits the stream to the present content of the present files."""
        with errors_in_one_line():
            self._last = {entry.path: entry.size for entry in self._options.files()}

    def latestOffset(  # noqa: N802 - Spark's name
        self, start: Offset | None = None, limit: object = None
    ) -> Offset:
        """The end of the whole records in the files, within the limit of a batch.

        With `ignoreCorruptFiles`, a file that cannot be read keeps its position.

        Args:
            start: offset from which to walk; None: the offset of the last call.
            limit: a limit of Spark's; `ReadAllAvailable`: none; otherwise those of the options.

        Raises:
            PcapError: a file is no capture, is compressed, has shrunk, or was replaced.
            OSError: a path of the options does not exist, or a file cannot be read.
        """
        with errors_in_one_line():
            reached = dict(self._reached if start is None else start)
            everything = limits is not None and isinstance(limit, limits.ReadAllAvailable)
            self._advance(
                reached,
                math.inf if everything else self._options.max_files_per_trigger or math.inf,
                math.inf if everything else self._options.most_bytes or math.inf,
            )
        self._reached = reached
        return reached

    def _advance(self, reached: Offset, files: float, most_bytes: float) -> None:
        """Advances an offset by at most so many files and about so many bytes."""
        listed = self._options.files()
        gone = reached.keys() - {entry.path for entry in listed}
        for path in [path for path in reached if path in gone][:-_MOST_GONE]:
            del reached[path]
            self._idle.pop(path, None)
        entries = [entry for entry in listed if self._view.needs(FilePart(entry.path))]
        if self._last is not None:
            entries = [
                replace(entry, size=self._last[entry.path]) for entry in entries if entry.path in self._last
            ]
        if files < math.inf or most_bytes < math.inf:
            # Files that wait for long come first.
            entries.sort(key=lambda entry: (entry.changed_ns or 0, entry.path))
        for entry in entries:
            if files <= 0 or most_bytes <= 0:
                return
            since = reached.get(entry.path, _UNREAD)
            position = since["position"] or 0
            if self._idle.get(entry.path) == (entry, position):
                continue
            now_s = time.time()
            until = None if self._last is None else entry.size
            try:
                reached_now = _walk(entry, since, self._options.ignore_corrupt_files, most_bytes, until)
            except FileNotFoundError:
                # It was removed after it was listed.
                continue
            except (PcapError, OSError):
                if not self._options.ignore_corrupt_files:
                    raise
                continue
            if reached_now is not None:
                # Last of all: the files at the front are those that have not grown for longest.
                reached.pop(entry.path, None)
                reached[entry.path] = reached_now
                files -= 1
                most_bytes -= reached_now["position"] - position
            elif entry.changed_ns is not None and entry.changed_ns < (now_s - _TIME_STEP_S) * 1e9:
                self._idle[entry.path] = entry, position

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """The parts between two offsets, in groups of about equal size."""
        self._reached = end
        parts = []
        for path, to in sorted(end.items()):
            since = start.get(path, _UNREAD)
            if since["position"] != to["position"]:
                part = {
                    "path": path,
                    "start": since["position"],
                    "end": to["position"],
                    "context": since["context"],
                    "carry": since["carry"],
                    "size": to["position"] - (since["position"] or 0),
                    "before": since["packets"],
                }
                parts.append(msgspec.convert(part, FilePart))
        return [PartGroup(group) for group in group_parts(parts, self._options.partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of the parts of a group."""
        assert isinstance(partition, PartGroup)
        with errors_in_one_line():
            for part in partition.parts:
                try:
                    yield from self._view.read(part)
                except MalformedPacketError:
                    raise
                except FileNotFoundError:
                    # To read the batch again would not help.
                    if not self._options.ignore_missing_files:
                        raise
                except PcapError:
                    # It was replaced.
                    if not self._options.ignore_corrupt_files:
                        raise
        freeze_new_imports()

    def commit(self, end: Offset) -> None:
        """Does nothing: no resource is held for a batch."""


def _walk(
    entry: FileEntry,
    since: dict[str, Any],
    up_to_damage: bool,
    most_bytes: float = math.inf,
    until: int | None = None,
) -> dict[str, Any] | None:
    """The offset behind the last whole record of a file; None: the file holds nothing beyond `since`.

    Args:
        up_to_damage: whether to read a damaged file up to the damage.
        most_bytes: the walk ends when it has passed about so many bytes; it passes one record at least.
        until: only the first `until` bytes of the file.

    Raises:
        PcapError: as `latestOffset`, or the file is damaged, unless `up_to_damage`.
    """
    path = entry.path
    position = since["position"]
    if position is not None and entry.size < position:
        raise PcapError(f"{path}: has shrunk from {position} to {entry.size} bytes; expected it to grow")
    if position is None and entry.size and is_compressed(path):
        raise PcapError(f"{path}: is compressed; only plain files can be followed while they grow")
    if position is not None and since["beginning"] != _beginning(path, position):
        raise PcapError(f"{path}: has been replaced by another file; expected the file to grow")
    if entry.size == position:
        return None
    context, fragments = tuple(since["context"]), CapturedFragments()
    fragments.carry(path, msgspec.convert(since["carry"], list[Carried]))
    reader = PcapReader(path, link_type=None, start=position, end=until, context=context, growing=True)
    packets = since["packets"]
    # Blocks are grown to hold their first record.
    block_bytes = int(min(DEFAULT_BLOCK_BYTES, max(most_bytes, _LEAST_BLOCK_BYTES)))
    for block in reader.blocks(block_bytes):
        fragments.see(block)
        packets += len(block.start)
        if reader.position - (position or 0) >= most_bytes - block_bytes // 2:
            break
    if reader.defect is not None and not up_to_damage:
        raise PcapError(f"{path}: {reader.defect}")
    if reader.position == (position or 0):
        return None
    return {
        "position": reader.position,
        "context": reader.context,
        "carry": fragments.held(),
        "packets": packets,
        "beginning": _beginning(path, reader.position),
    }


def _beginning(path: str, position: int) -> str:
    """A digest of the first bytes of a file, at most of the first `position` bytes."""
    first = bytearray(min(position, _BEGINNING))
    with open_bytes(path) as file:
        file.read_into(memoryview(first))
    return hashlib.sha256(first).hexdigest()[:16]
