"""Opening capture files: on this machine by path, elsewhere by URI; compressed with gzip, zstd or not."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from captures.pcap.formats import GZIP_MAGIC, ZSTD_MAGIC
from captures.pcap.uris import is_uri, locate

_COMPRESSED_CHUNK = 1 << 18


class ByteReader(Protocol):
    """An open file that is read from start to end.

    Attributes:
        defect: how compressed data end early or are damaged; None: no defect so far.
    """

    defect: str | None

    def read_into(self, target: memoryview) -> int:
        """Fills `target` unless the file ends before.

        Returns the number of bytes read.
        """
        ...


def is_compressed(path: str) -> bool:
    """Whether a file is compressed with gzip or zstd, by its first bytes.

    Raises:
        OSError: the file cannot be read.
    """
    with closing(_raw(path)) as file:
        return _content_of(bytes(file.read(len(ZSTD_MAGIC)))) is not None


@contextmanager
def open_bytes(path: str, offset: int = 0) -> Iterator[ByteReader]:
    """Opens a capture file at byte `offset`; a compressed file at that byte of its content.

    Compressed content is decompressed from the start up to the offset.

    Raises:
        OSError: the file cannot be read.
    """
    with closing(_raw(path)) as file:
        compressed = _content_of(bytes(file.read(len(ZSTD_MAGIC))))
        if compressed is not None:
            file.seek(0)
            content = compressed(file)
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
    if not is_uri(path):
        return Path(path).open("rb", buffering=0)
    system, inside = locate(path)
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
    """The content of a gzip file of one or more members, up to damage."""

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


class _Zstd:
    """The content of a zstd file of one or more frames, up to damage."""

    def __init__(self, file: Any) -> None:
        self._content = pa.CompressedInputStream(pa.PythonFile(file, mode="r"), "zstd")
        self.defect: str | None = None

    def read_into(self, target: memoryview) -> int:
        done = 0
        while done < len(target) and self.defect is None:
            try:
                data = self._content.read(min(len(target) - done, _COMPRESSED_CHUNK))
            except OSError as error:
                self.defect = f"the compressed data are damaged or end early: {error}"
                break
            if not data:
                break
            target[done : done + len(data)] = data
            done += len(data)
        return done


def _content_of(first: bytes) -> type[_Gzip] | type[_Zstd] | None:
    """The reader of a compressed file with these first bytes; None: it is not compressed."""
    if first.startswith(GZIP_MAGIC):
        return _Gzip
    return _Zstd if first == ZSTD_MAGIC else None
