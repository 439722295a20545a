"""Reading and writing the files of a run folder, and the error of a folder that is not whole."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from router.records.json_file import json_line, write_json, written_whole

#: Digits of an integer in a file of a run: of 64 bits, with a sign.
_MOST_DIGITS = 20
_LONG = re.compile(rf"\d{{{_MOST_DIGITS}}}")

__all__ = [
    "RunFolderError",
    "as_object",
    "key_number",
    "missing",
    "parse_line",
    "read_json",
    "read_lines",
    "read_object",
    "read_text",
    "write_json",
    "write_lines",
    "written_whole",
]


class RunFolderError(ValueError):
    """A file of a run folder is missing or malformed; the message names the file and what was expected."""


def read_json(path: Path) -> Any:
    """Reads a JSON document.

    Raises:
        RunFolderError: the file is missing, cannot be read, or is not JSON.
    """
    text = read_text(path)
    try:
        return _parsed(text)
    except (ValueError, RecursionError) as error:
        raise RunFolderError(f"{path}: expected JSON: {error}") from error


def _parsed(text: str) -> Any:
    """Raises ValueError, RecursionError: not JSON, or with an integer that no file of a run has."""
    # A function for each integer takes time, and few files have so many digits in a row.
    return json.loads(text, parse_int=_integer if _LONG.search(text) else None)


def _integer(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise ValueError(f"an integer of {len(digits)} digits; expected at most {_MOST_DIGITS}")
    return int(digits)


def read_text(path: Path) -> str:
    """Reads a file of text in UTF-8.

    Raises:
        RunFolderError: the file is missing, cannot be read, or is not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise missing(path) from error
    except OSError as error:
        raise RunFolderError(f"{path}: {error.strerror}; expected a file of a run") from error
    except ValueError as error:
        raise RunFolderError(f"{path}: expected text in UTF-8: {error}") from error


def read_object(path: Path) -> dict[str, Any]:
    """Reads a JSON document that is an object.

    Raises:
        RunFolderError: as `read_json`, or the document is not an object.
    """
    return as_object(str(path), read_json(path))


def read_lines(path: Path, *, unfinished: bool = False) -> Iterator[tuple[str, dict[str, Any]]]:
    """Reads the objects of a JSON Lines file.

    Yields each after its place (FILE:LINE), for errors.

    Args:
        unfinished: leave out a last line without an end, which its writer did not finish.

    Raises:
        RunFolderError: the file is missing or cannot be read, or a line is not a JSON object.
    """
    try:
        # In binary: a line ends at a line feed and nowhere else.
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if unfinished and not line.endswith(b"\n"):
                    return
                if not line.isspace():
                    where = f"{path}:{number}"
                    yield where, parse_line(where, line)
    except FileNotFoundError as error:
        raise missing(path) from error
    except OSError as error:
        raise RunFolderError(f"{path}: {error.strerror}; expected a file of a run") from error


def parse_line(where: str, line: bytes) -> dict[str, Any]:
    """Parses a line of a JSON Lines file.

    Raises:
        RunFolderError: the line is not a JSON object; names `where`.
    """
    try:
        value = _parsed(line.decode())
    except (ValueError, RecursionError) as error:
        raise RunFolderError(f"{where}: expected JSON: {error}") from error
    return as_object(where, value)


def write_lines(path: Path, records: Iterable[Mapping[str, Any]], *, ascii_only: bool = True) -> None:
    """Writes a JSON Lines file whole or not at all.

    Several processes may write the same file at a time.

    Args:
        ascii_only: see `router.records.json_file.json_line`.

    Raises:
        OSError: the file cannot be written.
    """
    for left in path.parent.glob(f"{path.name}.*.new"):
        if not Path("/proc", left.name.split(".")[-2]).exists():
            left.unlink(missing_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        with partial.open("w", encoding="utf-8") as file:
            file.writelines(json_line(record, ascii_only=ascii_only) for record in records)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def missing(path: Path) -> RunFolderError:
    """The error of a file or folder that a run folder lacks."""
    return RunFolderError(f"{path}: missing; was the emulation interrupted, or does it still run?")


def as_object(where: str, value: Any) -> dict[str, Any]:
    """Returns the value, which has to be a JSON object.

    Raises:
        RunFolderError: the value is something else; names `where`.
    """
    if not isinstance(value, dict):
        raise RunFolderError(f"{where}: expected a JSON object")
    return value


def key_number(path: Path, key: str) -> int:
    """The number of a node, port or interface that is the key of a JSON object.

    Raises:
        RunFolderError: the key is no number; names the file.
    """
    try:
        return int(key)
    except ValueError as error:
        raise RunFolderError(f"{path}: {key!r}; expected a number as the key") from error
