"""Capture files wherever they are: on this machine by path, elsewhere by URI; gzip or not.

URIs (`hdfs://`, `s3://`, `file:`) go through pyarrow.fs; `hdfs://` needs Hadoop's native library (libhdfs) on
each machine that reads.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from glob import glob, has_magic
from pathlib import Path
from typing import Any, Protocol

from pyarrow import fs

from captures.packets.formats import GZIP_MAGIC

#: What a directory is searched for: names of captures, also numbered (tcpdump -C) and compressed ones.
_CAPTURE_NAME = re.compile(r"\.(pcap|pcapng|cap|dmp|ntar)\d*(\.gz)?$", re.IGNORECASE)
#: A file's name may hold a colon, such as one with a time of day.
_URI = re.compile(r"[a-z][a-z0-9+.-]+:/", re.IGNORECASE)
_COMPRESSED_CHUNK = 1 << 18


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file: path or URI, and its size in bytes."""

    path: str
    size: int


class ByteReader(Protocol):
    """An open file, read from front to back.

    Attributes:
        defect: how compressed data end early or are damaged; None so far.
    """

    defect: str | None

    def read_into(self, target: memoryview) -> int:
        """Fills `target` unless the file ends first; the number of bytes read."""
        ...


def list_captures(
    paths: Sequence[str], name_glob: str | None = None, recursive: bool = False
) -> list[FileEntry]:
    """The files that paths, URIs, directories and globs stand for, each once, sorted.

    Of a directory, the files whose names match `name_glob`, by default those that captures have, and which
    are not hidden; `recursive`: of its sub-directories too. A glob or path of its own may name any file.

    Raises:
        FileNotFoundError: a path does not exist, or a glob matches nothing.
    """
    found: dict[str, FileEntry] = {}
    for path in paths:
        if _URI.match(path):
            entries = list(_list_uri(path, name_glob, recursive))
        else:
            names = [path]
            if has_magic(path) and not Path(path).exists():
                names = sorted(glob(path, recursive=True))  # noqa: PTH207 - the pattern may be absolute
            entries = [entry for name in names for entry in _list_local(Path(name), name_glob, recursive)]
            if not names:
                raise FileNotFoundError(f"{path}: matches no file")
        found.update((entry.path, entry) for entry in entries)
    return [found[path] for path in sorted(found)]


def _list_local(path: Path, name_glob: str | None, recursive: bool) -> Iterator[FileEntry]:
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file or directory")
    if not path.is_dir():
        yield FileEntry(str(path.absolute()), path.stat().st_size)
        return
    for inside in path.absolute().rglob("*") if recursive else path.absolute().iterdir():
        if is_wanted(inside.name, name_glob) and inside.is_file():
            yield FileEntry(str(inside), inside.stat().st_size)


def _list_uri(uri: str, name_glob: str | None, recursive: bool) -> Iterator[FileEntry]:
    pattern = None
    if has_magic(uri):
        # Only the part without wildcards can be looked up.
        plain = re.split(r"[*?\[]", uri, maxsplit=1)[0]
        base = plain[: plain.rindex("/")]
        pattern = uri[len(base) + 1 :].split("/")
        recursive = recursive or len(pattern) > 1
    else:
        base = uri
    system, root = fs.FileSystem.from_uri(base)
    prefix = base.rstrip("/").removesuffix(root.rstrip("/"))
    top = system.get_file_info(root)
    if top.type == fs.FileType.NotFound:
        raise FileNotFoundError(f"{uri}: no such file or directory")
    if top.type == fs.FileType.File:
        yield FileEntry(uri, top.size)
        return
    matched = False
    for info in system.get_file_info(fs.FileSelector(root, recursive=recursive)):
        if info.type != fs.FileType.File:
            continue
        parts = info.path[len(root) :].strip("/").split("/")
        if pattern is None:
            wanted = is_wanted(info.base_name, name_glob)
        else:
            wanted = len(parts) == len(pattern) and all(map(fnmatchcase, parts, pattern))
        if wanted:
            matched = True
            yield FileEntry(prefix + info.path, info.size)
    if pattern is not None and not matched:
        raise FileNotFoundError(f"{uri}: matches no file")


def is_wanted(name: str, name_glob: str | None) -> bool:
    """Whether a file of a directory is taken for a capture, by its name, or by a glob for names."""
    if name.startswith((".", "_")):
        return False
    return fnmatchcase(name, name_glob) if name_glob else _CAPTURE_NAME.search(name) is not None


def file_size(path: str) -> int:
    """Size in bytes now.

    Raises:
        OSError: it is not there.
    """
    if not _URI.match(path):
        return Path(path).stat().st_size
    system, inside = fs.FileSystem.from_uri(path)
    info = system.get_file_info(inside)
    if info.type != fs.FileType.File:
        raise FileNotFoundError(f"{path}: no such file")
    return int(info.size)


def is_compressed(path: str) -> bool:
    """Whether a file is gzip, by its first bytes.

    Raises:
        OSError: it cannot be read.
    """
    with closing(_raw(path)) as file:
        return bytes(file.read(len(GZIP_MAGIC))) == GZIP_MAGIC


@contextmanager
def open_bytes(path: str, offset: int = 0) -> Iterator[ByteReader]:
    """A capture file from byte `offset` on; of a compressed one, of its content (read from the front).

    Raises:
        OSError: it cannot be read.
    """
    with closing(_raw(path)) as file:
        compressed = bytes(file.read(len(GZIP_MAGIC))) == GZIP_MAGIC
        if compressed:
            file.seek(0)
            content = _Gzip(file)
            skipped = memoryview(bytearray(min(offset, _COMPRESSED_CHUNK)))
            while offset:
                read = content.read_into(skipped[: min(offset, len(skipped))])
                if not read:
                    break
                offset -= read
            yield content
        else:
            file.seek(offset)
            yield _Plain(file)


def _raw(path: str) -> Any:
    if not _URI.match(path):
        return Path(path).open("rb", buffering=0)
    system, inside = fs.FileSystem.from_uri(path)
    return system.open_input_file(inside)


class _Plain:
    def __init__(self, file: Any) -> None:
        self._file = file
        self.defect: str | None = None

    def read_into(self, target: memoryview) -> int:
        done = 0
        while done < len(target):
            read = self._file.readinto(target[done:])
            if not read:
                break
            done += read
        return done


class _Gzip:
    """The content of a gzip file of one or more members; keeps what precedes damage."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._member = zlib.decompressobj(wbits=31)
        self._waiting = b""
        self.defect: str | None = None

    def read_into(self, target: memoryview) -> int:
        done = 0
        while done < len(target) and self.defect is None:
            if self._member.eof:
                self._waiting = self._member.unused_data or bytes(self._file.read(_COMPRESSED_CHUNK))
                # Zeros may follow the last member.
                if not self._waiting.strip(b"\0"):
                    break
                self._member = zlib.decompressobj(wbits=31)
            if not self._waiting:
                self._waiting = bytes(self._file.read(_COMPRESSED_CHUNK))
            try:
                data = self._member.decompress(self._waiting, len(target) - done)
            except zlib.error as error:
                self.defect = f"the compressed data are damaged: {error}"
                break
            if not self._waiting and not data:
                self.defect = "the compressed data end early"
                break
            self._waiting = self._member.unconsumed_tail
            target[done : done + len(data)] = data
            done += len(data)
        return done
