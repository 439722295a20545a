"""The index of a capture file: the parts that tasks read on their own.

Records of a capture carry no marks: their offsets are known only after a walk over all records from the
start of the file. `index_file` walks once, and notes for each part the state that its reader needs: the
blocks of the pcapng section that the part lies in, and the fragments of CBCB frames that are incomplete at
its start. Reading all parts therefore gives the rows that reading the whole file gives. The index also holds
the least and greatest time and the CBCB frame types of each part, so that queries can skip parts.
`write_index` keeps an index beside its file.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path

import msgspec

from captures.frames.parts import CapturedFragments, FilePart
from captures.pcap import PcapError
from captures.pcap.blocks import Block
from captures.pcap.listing import INDEX_SUFFIX, FileEntry
from captures.pcap.opening import is_compressed
from captures.pcap.reader import PcapReader
from captures.pcap.walk import NO_TIME

#: Approximate bytes of a file that one task reads.
DEFAULT_PART_BYTES = 128 * 1024 * 1024
_INDEX_VERSION = 3
_WALKS_AT_ONCE = 2


def index_file(path: str, part_bytes: int = DEFAULT_PART_BYTES) -> list[FilePart]:
    """The parts of a file, each of about `part_bytes` bytes; at least one.

    A compressed file has one part.

    Raises:
        PcapError, OSError: as `PcapReader`.
    """
    return _index(path, part_bytes)[0]


def _index(path: str, part_bytes: int) -> tuple[list[FilePart], str | None]:
    """The parts of a file, and the defect of a file that ends inside a record (None: it is whole)."""
    # Reading a later part of a compressed file means decompressing all that precedes it.
    splits = not is_compressed(path)
    reader = PcapReader(path, link_type=None)
    fragments = CapturedFragments()
    parts: list[FilePart] = []
    part, packets = FilePart(path, types=()), 0
    rows = max(1, min(65_536, part_bytes // 64))
    for block in reader.blocks(min(max(1, part_bytes // 4), 4 * 1024 * 1024), rows):
        packets += len(block.start)
        size = reader.position - (part.start or 0)
        part = replace(_extended(part, block, fragments.see(block)), end=reader.position, size=size)
        if splits and size >= part_bytes:
            parts.append(part)
            held = fragments.held()
            part = FilePart(path, reader.position, None, reader.context, held, types=(), before=packets)
    if part.size or not parts:
        parts.append(part)
    # The reader of the last part reports a defect behind the last whole record.
    parts[-1] = replace(parts[-1], end=None)
    return parts, reader.defect


def _extended(part: FilePart, block: Block, types: Sequence[int]) -> FilePart:
    """The part with the times of a further block, and with the types of its CBCB frames."""
    times = [ns for ns in (part.first_ns, part.last_ns) if ns is not None]
    timed = block.time_ns[block.time_ns != NO_TIME]
    times += [int(timed.min()), int(timed.max())] if len(timed) else []
    known = tuple(sorted({*(part.types or ()), *types}))
    return replace(part, first_ns=min(times, default=None), last_ns=max(times, default=None), types=known)


def write_index(path: str | Path, part_bytes: int = DEFAULT_PART_BYTES) -> Path:
    """Walks a finished capture and writes its index beside it (`NAME.index.json`), where readers look for it.

    Raises:
        PcapError, OSError: the capture cannot be read, or the index not written.
    """
    path = Path(path).absolute()
    return _write_index(path, index_file(str(path), part_bytes))


def check_capture(path: Path) -> str | None:
    """Walks a finished capture.

    Returns its defect if it ends inside a record, else None.

    Writes the index of a capture that is large enough to be split.

    Raises:
        PcapError, OSError: as `PcapReader`, or the index cannot be written.
    """
    parts, defect = _index(str(path.absolute()), DEFAULT_PART_BYTES)
    if _is_split(path.stat().st_size, DEFAULT_PART_BYTES):
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
    """The parts in the index of a local file; None: it has no index, or has changed since it was indexed."""
    try:
        document = json.loads(Path(f"{path}{INDEX_SUFFIX}").read_text(encoding="utf-8"))
        status = Path(path).stat()
        if (document["version"], document["size"], document["mtime_ns"]) != (
            _INDEX_VERSION, status.st_size, status.st_mtime_ns,
        ):  # fmt: skip
            return None
        return [msgspec.convert({**entry, "path": path}, FilePart) for entry in document["parts"]]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def split_files(entries: Sequence[FileEntry], part_bytes: int, *, skip_bad: bool = False) -> list[FilePart]:
    """The files in parts of about `part_bytes` bytes.

    Compressed files, and files of up to one and a half times that size, stay whole. A file that is to be
    split and has no index is walked, two files at a time.

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
