"""Opening capture files: on this machine by path, elsewhere by URI; compressed with gzip, zstd or not.

URIs are those that pyarrow.fs opens (`s3:`, `gs:`, `abfs:`, `hdfs:`, `file:`), with or without escapes.
Hadoop's name `s3a:` is that of `s3:`. `hdfs:` needs Hadoop's native library (libhdfs) on each machine that
reads.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from gzip import BadGzipFile, GzipFile
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pyarrow as pa
from pyarrow import fs

from captures.pcap import GZIP_MAGIC, ZSTD_MAGIC

#: Names of files may contain colons, as in a time of day.
_URI = re.compile(r"[a-z][a-z0-9+.-]+:/", re.IGNORECASE)
#: A `?` that begins no setting is a wildcard, or part of a name.
_PARTS = re.compile(r"([^/]*:(?://[^/?]*)?)(.*?)(\?\w+=[^?]*)?", re.DOTALL)
#: Characters that a path in a URI may contain unescaped (RFC 3986), and `%` of escapes.
_PLAIN = "/%!$&'()*+,;=:@"
_COMPRESSED_CHUNK = 1 << 18


class Uri(NamedTuple):
    """A URI: scheme and authority, path as written, settings of the file system (`?region=...`)."""

    head: str
    path: str
    query: str


def is_uri(path: str) -> bool:
    """Whether a path is a URI; otherwise it is a path of this machine."""
    return _URI.match(path) is not None


def split_uri(uri: str) -> Uri:
    """The parts of a URI."""
    parts = _PARTS.fullmatch(uri)
    assert parts is not None
    return Uri(*(part or "" for part in parts.groups()))


def locate(uri: str) -> tuple[fs.FileSystem, str]:
    """The file system of a URI, and the path in it.

    Characters that should be escaped may be unescaped.

    Raises:
        OSError: pyarrow has no such file system, or the library that it needs is missing.
    """
    head, path, query = split_uri(uri)
    escaped = re.sub(r"%(?![0-9A-Fa-f]{2})", "%25", path)
    head = re.sub("^s3a:", "s3:", head)
    try:
        system, inside = fs.FileSystem.from_uri(head + quote(escaped, safe=_PLAIN) + query)
    except (OSError, ValueError) as error:
        raise OSError(
            f"{uri}: {_first_line(error)}; expected file:, s3:, gs:, abfs:, or hdfs: with libhdfs"
        ) from error
    return system, inside


@contextmanager
def errors_of(uri: str) -> Iterator[None]:
    """Errors of a remote file system in the block, as one line that names the URI.

    Raises:
        OSError: as raised in the block.
    """
    try:
        yield
    except OSError as error:
        if type(error) is not OSError:
            raise  # a path that is missing, or no folder
        where = "keys, region and endpoint are those of the environment or of the URI"
        raise OSError(f"{uri}: {_first_line(error)}; {where} (docs/reference/pcap-source.md)") from error


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0].rstrip(".")


def place_of(path: str | Path) -> tuple[fs.FileSystem, str]:
    """The file system of a path or URI, and the path in it.

    Raises:
        OSError: as `locate`.
    """
    return locate(str(path)) if is_uri(str(path)) else (fs.LocalFileSystem(), str(Path(path).resolve()))


class ByteReader:
    """An open file that is read from start to end; of a compressed file, the content up to damage.

    Attributes:
        defect: how compressed data end early or are damaged; None: no defect so far.

    Args:
        readinto: that of the file, or of what decompresses it.
        damage: its errors where compressed data end early or are damaged.
    """

    def __init__(
        self, readinto: Callable[[memoryview], int], damage: tuple[type[Exception], ...] = ()
    ) -> None:
        self._readinto = readinto
        self._damage = damage
        self.defect: str | None = None

    def read_into(self, target: memoryview) -> int:
        """Fills `target` unless the file ends before.

        Returns the number of bytes read.
        """
        done = 0
        while done < len(target) and self.defect is None:
            # Damage costs the content of the call that meets it.
            end = done + _COMPRESSED_CHUNK if self._damage else len(target)
            try:
                read = self._readinto(target[done:end])
            except self._damage as error:
                self.defect = f"the compressed data are damaged or end early: {error}"
                break
            if not read:
                break
            done += read
        return done


def is_compressed(path: str) -> bool:
    """Whether a file is compressed with gzip or zstd, by its first bytes.

    Raises:
        OSError: the file cannot be read.
    """
    with closing(_raw(path)) as file:
        return _content_of(file) is not None


@contextmanager
def open_bytes(path: str, offset: int = 0) -> Iterator[ByteReader]:
    """Opens a capture file at byte `offset`; a compressed file at that byte of its content.

    Compressed content is decompressed from the start up to the offset.

    Raises:
        OSError: the file cannot be read.
    """
    with closing(_raw(path)) as file:
        content = _content_of(file)
        if content is None:
            file.seek(offset)
            content, offset = ByteReader(file.readinto), 0
        skipped = memoryview(bytearray(min(offset, _COMPRESSED_CHUNK)))
        while offset and (read := content.read_into(skipped[:offset])):
            offset -= read
        yield content


def _raw(path: str) -> Any:
    if not is_uri(path):
        return Path(path).open("rb", buffering=0)
    system, inside = locate(path)
    return system.open_input_file(inside)


def _content_of(file: Any) -> ByteReader | None:
    """The content of a compressed file of one or more members or frames; None: it is not compressed."""
    first = bytes(file.read(len(ZSTD_MAGIC)))
    file.seek(0)
    if first.startswith(GZIP_MAGIC):
        return ByteReader(GzipFile(fileobj=file, mode="rb").readinto1, (BadGzipFile, EOFError, zlib.error))
    if first == ZSTD_MAGIC:
        return ByteReader(
            pa.CompressedInputStream(pa.PythonFile(file, mode="r"), "zstd").readinto, (OSError,)
        )
    return None
