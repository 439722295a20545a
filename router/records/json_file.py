"""JSON documents and JSON lines as this project writes them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

#: Containers within each other that have a line for each entry.
_DEPTH = 2


def write_json(path: Path, value: Any, *, durable: bool = True) -> None:
    """Writes a JSON document whole or not at all: a reader never sees a partial document.

    Args:
        durable: wait until the document is on the disk, for a reader after a power failure.

    Raises:
        OSError: the file cannot be written.
    """
    with written_whole(path, durable=durable) as file:
        file.write(_lines(value, 0) + "\n")


def _lines(value: Any, depth: int) -> str:
    """Returns JSON with a line for each entry of the outer containers.

    What lies deeper is written by the encoder in C, which makes no lines: counters of thousands of routers
    take a tenth of the time.
    """
    if depth == _DEPTH or not value or not isinstance(value, (dict, list, tuple)):
        return json.dumps(value)
    indent = "\n" + " " * (depth + 1)
    if isinstance(value, dict):
        # The keys as the encoder writes them: numbers become text.
        entries = [f"{json.dumps({key: 0})[1:-4]}: {_lines(each, depth + 1)}" for key, each in value.items()]
        brackets = "{}"
    else:
        entries = [_lines(each, depth + 1) for each in value]
        brackets = "[]"
    return f"{brackets[0]}{indent}{f',{indent}'.join(entries)}{indent[:-1]}{brackets[1]}"


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
