"""Opening capture files: on this machine by path, elsewhere by URI; compressed with gzip, zstd or not."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from gzip import BadGzipFile, GzipFile
from pathlib import Path
from typing import Any

import pyarrow as pa

from captures.pcap.formats import GZIP_MAGIC, ZSTD_MAGIC
from captures.pcap.uris import is_uri, locate

_COMPRESSED_CHUNK = 1 << 18


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
