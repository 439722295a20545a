"""JSON documents and JSON lines as this project writes them: UTF-8, by msgspec."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

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
