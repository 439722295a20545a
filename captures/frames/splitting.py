"""Parts of capture files that tasks read on their own, and the index of a file that makes them.

A capture has no marks between records: where they lie is known by walking over all of them from the front.
`index_file` does so once, and notes for each part what its reader must know of what came before: the blocks
of the pcapng section it lies in, and the fragments of CBCB frames that were not whole yet. Reading the parts
therefore gives what reading the file gives. Of each part the index has the least and greatest time and the
CBCB frame types, so that parts can be left out. `write_index` keeps an index beside its file.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from captures.frames.fragments import CapturedFragments, Carried
from captures.pcap.compiling import worth_compiling
from captures.pcap.listing import INDEX_SUFFIX, FileEntry
from captures.pcap.opening import is_compressed
from captures.pcap.reader import LINKTYPE_ETHERNET, NO_TIME, Block, PcapError, PcapReader, tail_defect
from router.wire.addresses import ETHERTYPE
from router.wire.header import DecodeError

#: About how many bytes of a file one task reads.
DEFAULT_PART_BYTES = 128 * 1024 * 1024
_INDEX_VERSION = 1
_ETHERNET_LENGTH = 14
_WALKS_AT_ONCE = 2


@dataclass(frozen=True, slots=True)
class FilePart:
    """A part of a file: the packets whose records begin in [start, end).

    Attributes:
        path: path or URI.
        start, end: offsets between records; `end` None: the end of the file.
        context: offsets of the pcapng blocks that say how to read it.
        carry: the packets before `start` that are fragments of frames not whole at `start`.
        size: about how many bytes it has.
        first_ns, last_ns: least and greatest time in it; None: not known.
        types: the numbers of the CBCB frame types in it; None: not known.
    """

    path: str
    start: int | None = None
    end: int | None = None
    context: tuple[int, ...] = ()
    carry: tuple[Carried, ...] = ()
    size: int = 0
    first_ns: int | None = None
    last_ns: int | None = None
    types: tuple[int, ...] | None = None


class PartState:
    """What the reader of a part must know of the packets before it, as far as they have been seen.

    Args:
        fragments: those that have come in before.
    """

    def __init__(self, fragments: CapturedFragments | None = None) -> None:
        self.fragments = fragments or CapturedFragments()

    def see(self, block: Block) -> tuple[int, ...]:
        """Takes a block; the numbers of the CBCB frame types in it."""
        types, fragments = _survey(block)
        for row in fragments.tolist():
            with suppress(DecodeError):
                self.fragments.add(*block.packet(row))
        return types


def _survey(block: Block) -> tuple[tuple[int, ...], npt.NDArray[np.int64]]:
    """The numbers of the CBCB frame types in a block, and the rows of its fragments."""
    raw = np.frombuffer(block.data, np.uint8)
    start, captured = block.start, block.captured
    ethernet = None if block.link_type is None else np.flatnonzero(block.link_type == LINKTYPE_ETHERNET)
    if ethernet is not None:
        start, captured = start[ethernet], captured[ethernet]
    if worth_compiling(len(block.data)):
        from captures.frames.loops import survey

        types, fragments = survey(raw, start, captured)
    else:
        rows = np.flatnonzero(captured >= _ETHERNET_LENGTH + 28)
        rows = rows[_u16(raw, start[rows] + 12) == ETHERTYPE]
        types = np.unique(raw[start[rows] + _ETHERNET_LENGTH + 1])
        fragments = rows[_u16(raw, start[rows] + _ETHERNET_LENGTH + 26) != 1]
    return tuple(types.tolist()), fragments if ethernet is None else ethernet[fragments]


def _u16(raw: npt.NDArray[np.uint8], at: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    high: npt.NDArray[np.int64] = raw[at].astype(np.int64)
    return high << 8 | raw[at + 1]


def index_file(path: str, part_bytes: int = DEFAULT_PART_BYTES) -> list[FilePart]:
    """The parts of a file, each of about `part_bytes` bytes; at least one, and of a compressed file only one.

    Raises:
        PcapError, OSError: as `PcapReader`.
    """
    return _index(path, part_bytes)[0]


def _index(path: str, part_bytes: int) -> tuple[list[FilePart], str | None]:
    """The parts of a file, and how it ends inside a record."""
    # To read a later part of a compressed file is to read all that precedes it.
    splits = not is_compressed(path)
    reader = PcapReader(path, link_type=None)
    state = PartState()
    parts: list[FilePart] = []
    now = _Open()
    rows = max(1, min(65_536, part_bytes // 64))
    for block in reader.blocks(min(max(1, part_bytes // 4), 4 * 1024 * 1024), rows):
        now.add(block, state.see(block))
        if splits and reader.position - now.start >= part_bytes:
            parts.append(now.close(path, reader.position))
            now = _Open(reader.position, reader.context, state.fragments.held())
    if not parts or now.blocks:
        parts.append(now.close(path, reader.position))
    # What follows the last whole record is for the last part to report.
    parts[-1] = replace(parts[-1], end=None)
    return parts, reader.defect


class _Open:
    """The part that an index is at."""

    def __init__(
        self, start: int = 0, context: tuple[int, ...] = (), carry: tuple[Carried, ...] = ()
    ) -> None:
        self.start = start
        self.context = context
        self.carry = carry
        self.blocks = 0
        self.first_ns: int | None = None
        self.last_ns: int | None = None
        self.types: set[int] = set()

    def add(self, block: Block, types: Sequence[int]) -> None:
        self.blocks += 1
        self.types.update(types)
        times = block.time_ns[block.time_ns != NO_TIME]
        if len(times):
            first, last = int(times.min()), int(times.max())
            self.first_ns = first if self.first_ns is None else min(first, self.first_ns)
            self.last_ns = last if self.last_ns is None else max(last, self.last_ns)

    def close(self, path: str, end: int) -> FilePart:
        types = tuple(sorted(self.types))
        return FilePart(
            path, self.start or None, end, self.context, self.carry, end - self.start,
            self.first_ns, self.last_ns, types,
        )  # fmt: skip


def write_index(path: str | Path, part_bytes: int = DEFAULT_PART_BYTES) -> Path:
    """Walks a finished capture and writes its index beside it (`NAME.index.json`), where readers find it.

    Raises:
        PcapError, OSError: it cannot be read, or the index not written.
    """
    path = Path(path).absolute()
    return _write_index(path, index_file(str(path), part_bytes))


def check_capture(path: Path) -> str | None:
    """Walks a finished capture of Ethernet frames; how it ends inside a record, None if it is whole.

    Writes the index of one that is large enough to be split.

    Raises:
        PcapError, OSError: as `tail_defect`, or the index cannot be written.
    """
    if not _is_split(path.stat().st_size, DEFAULT_PART_BYTES):
        return tail_defect(path)
    parts, defect = _index(str(path.absolute()), DEFAULT_PART_BYTES)
    _write_index(path.absolute(), parts)
    return defect


def _is_split(size: int, part_bytes: int) -> bool:
    return 2 * size > 3 * part_bytes


def _write_index(path: Path, index_parts: Sequence[FilePart]) -> Path:
    parts = [{key: value for key, value in asdict(part).items() if key != "path"} for part in index_parts]
    status = path.stat()
    document = {
        "version": _INDEX_VERSION,
        "size": status.st_size,
        "mtime_ns": status.st_mtime_ns,
        "parts": parts,
    }
    index = Path(f"{path}{INDEX_SUFFIX}")
    index.write_text(json.dumps(document), encoding="utf-8")
    return index


def read_index(path: str) -> list[FilePart] | None:
    """The parts by the index beside a local file; None: there is none, or the file has changed since."""
    try:
        document = json.loads(Path(f"{path}{INDEX_SUFFIX}").read_text(encoding="utf-8"))
        status = Path(path).stat()
        if (document["version"], document["size"], document["mtime_ns"]) != (
            _INDEX_VERSION, status.st_size, status.st_mtime_ns,
        ):  # fmt: skip
            return None
        return [_part(path, entry) for entry in document["parts"]]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _part(path: str, entry: dict[str, object]) -> FilePart:
    return FilePart(path, **{key: fixed(value) for key, value in entry.items()})  # type: ignore[arg-type]


def fixed(value: object) -> object:
    """A JSON value with tuples in place of its lists."""
    return tuple(map(fixed, value)) if isinstance(value, list) else value


def split_files(entries: Sequence[FileEntry], part_bytes: int, *, skip_bad: bool = False) -> list[FilePart]:
    """The files in parts of about `part_bytes` bytes; those up to half as large again stay whole, and
    compressed ones.

    Files without an index that are to be split are walked, two at a time.

    Raises:
        PcapError, OSError: as `PcapReader`, of a file that is walked, unless `skip_bad`.
    """

    def split(entry: FileEntry) -> list[FilePart]:
        known = read_index(entry.path)
        if known is not None:
            return known
        try:
            if not _is_split(entry.size, part_bytes) or is_compressed(entry.path):
                return [FilePart(entry.path, size=entry.size)]
            return index_file(entry.path, part_bytes)
        except (PcapError, OSError):
            if skip_bad:
                return []
            raise

    with ThreadPoolExecutor(_WALKS_AT_ONCE) as pool:
        return [part for parts in pool.map(split, entries) for part in parts]


def group_parts(parts: Sequence[FilePart], groups: int) -> list[list[FilePart]]:
    """The parts in at most `groups` groups of about equal size, no empty one."""
    return [[parts[i] for i in group] for group in balance([part.size for part in parts], groups)]


def balance(sizes: Sequence[int], groups: int) -> list[list[int]]:
    """Splits indices into at most `groups` non-empty groups of about equal total size, largest first."""
    loads = [0] * max(1, groups)
    members: list[list[int]] = [[] for _ in loads]
    for index in sorted(range(len(sizes)), key=lambda i: (-sizes[i], i)):
        lightest = loads.index(min(loads))
        members[lightest].append(index)
        # Opening a file costs something too, so that empty files are spread as well.
        loads[lightest] += sizes[index] + 1
    return [group for group in members if group]
