"""JSON documents and JSON lines as this project writes them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO


def write_json(path: Path, value: Any, *, durable: bool = True) -> None:
    """Writes a JSON document whole or not at all: a reader never sees a partial document.

    Args:
        durable: wait until the document is on the disk, for a reader after a power failure.

    Raises:
        OSError: the file cannot be written.
    """
    with written_whole(path, durable=durable) as file:
        json.dump(value, file, indent=1)
        file.write("\n")


@contextmanager
def written_whole(path: Path, *, durable: bool = True) -> Iterator[TextIO]:
    """Opens a text file that replaces `path` when the block has ended without an error.

    Args:
        durable: as of `write_json`.

    Raises:
        OSError: the file cannot be written.
    """
    partial = path.with_name(path.name + ".new")
    with partial.open("w", encoding="utf-8") as file:
        yield file
        if durable:
            file.flush()
            os.fsync(file.fileno())
    partial.replace(path)


def json_line(record: Mapping[str, Any], *, ascii_only: bool = True) -> str:
    """Returns a record as a line of a JSON Lines file, the line feed included.

    Args:
        ascii_only: write other characters as escapes, which also represent text that is no valid Unicode.
    """
    return json.dumps(record, ensure_ascii=ascii_only, separators=(",", ":")) + "\n"
