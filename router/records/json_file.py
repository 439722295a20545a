"""JSON documents and JSON lines as this project writes them: UTF-8, by msgspec.

A file of records has one JSON object a line, and a router appends to it while it runs.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

#: Wall seconds for which a record may wait in memory.
DELAY_S = 0.1
#: Bytes of records that are written without waiting.
CHUNK_BYTES = 65_536
#: Bytes of records that are kept while the file cannot be written; further records are lost.
_MOST_WAITING = 4 * 1024 * 1024
#: Wall seconds between two attempts to write a file that could not be written.
_RETRY_S = 1.0
_ENCODER = msgspec.json.Encoder(enc_hook=os.fspath)


def write_json(path: Path, value: Any, *, durable: bool = True) -> None:
    """Writes a JSON document whole or not at all, with a line for each entry.

    Args:
        durable: wait until the document is on the disk, for a reader after a power failure.

    Raises:
        OSError: the file cannot be written.
    """
    with written_whole(path, durable=durable) as file:
        file.write(msgspec.json.format(to_json(value), indent=1) + b"\n")


@contextmanager
def written_whole(path: Path, *, durable: bool = True) -> Iterator[BinaryIO]:
    """Opens a file that replaces `path` when the block has ended without an error.

    Args:
        durable: as of `write_json`.

    Raises:
        OSError: the file cannot be written.
    """
    partial = path.with_name(path.name + ".new")
    with partial.open("wb") as file:
        yield file
        if durable:
            file.flush()
            os.fsync(file.fileno())
    partial.replace(path)


def json_line(record: Any) -> bytes:
    """A record as a line of a JSON Lines file, or of a socket, the line feed included."""
    return to_json(record) + b"\n"


def to_json(value: Any) -> bytes:
    """A value as JSON; a path becomes text.

    Text that is no valid Unicode, such as a file name of other bytes, gets question marks. Numbers are
    finite: another becomes null.
    """
    try:
        return _ENCODER.encode(value)
    except UnicodeEncodeError:
        built = json.dumps(msgspec.to_builtins(value, enc_hook=os.fspath), ensure_ascii=False)
        return _ENCODER.encode(json.loads(built.encode("utf-8", "replace")))


class RecordFile:
    """Appends records of one router, or of a whole simulation, to a file.

    Records wait in memory for at most `DELAY_S`, if `tick` is called when it is due. While the file cannot be
    written, on a full disk for instance, they wait longer; what finds no room is counted.

    Args:
        path: the file; records are appended.
        failed: is called with the error when the file cannot be written, and not again before it could be.
        chunk: so many bytes of records are written without waiting; 0: each record is, for a process that has
            no loop to call `tick`.

    Attributes:
        lost: records that have not been written and never will be.
    """

    def __init__(self, path: Path | str, failed: Callable[[OSError], None], chunk: int = CHUNK_BYTES) -> None:
        self.lost = 0
        self._chunk = chunk
        self._failed = failed
        self._failing = False
        self._waiting = bytearray()
        #: When the waiting records are to be written, by `time.monotonic`; None: no record waits.
        self._due: float | None = None
        self._file = -1
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            failed(error)

    def next_deadline(self) -> float | None:
        """Returns the time (`time.monotonic`) at which `tick` is to be called, or None."""
        return self._due

    def tick(self, now: float) -> None:
        """Writes the records that have waited long enough."""
        if self._due is not None and now >= self._due:
            self.flush()

    def flush(self) -> None:
        """Writes the records that wait, as far as the file system takes them."""
        if self._file < 0:
            return
        try:
            while self._waiting:
                # The rest of a record that was written in part follows at the next attempt.
                del self._waiting[: os.write(self._file, self._waiting)]
        except OSError as error:
            self._due = time.monotonic() + _RETRY_S
            if not self._failing:
                self._failing = True
                self._failed(error)
        else:
            self._due = None
            self._failing = False

    def close(self) -> None:
        """Writes the records that wait and closes the file; a second call does nothing."""
        self.flush()
        self.lost += self._waiting.count(b"\n")
        self._waiting.clear()
        self._due = None
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def append(self, record: Mapping[str, Any]) -> None:
        line = json_line(record)
        if self._file < 0 or (self._failing and len(self._waiting) + len(line) > _MOST_WAITING):
            self.lost += 1
            return
        self._waiting += line
        if self._due is None:
            self._due = time.monotonic() + DELAY_S
        if len(self._waiting) > self._chunk and not self._failing:
            self.flush()
