"""Reading and writing the files of a run folder, and the error of a folder that is not whole."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

from captures.rundir import RunLayout
from router.records.forms import convert, parse
from router.records.json_file import json_line, write_json

_T = TypeVar("_T")


class RunFolderError(ValueError):
    """A file of a run folder is missing or malformed; the message names the file and what was expected."""


@dataclass(frozen=True)
class RunFile:
    """The description of a file in the document of the run folder.

    Attributes:
        names: gives the paths that the sentence is about.
        sentence: what the file holds, and who writes it.
        records: heading and type of each record of the file; empty: the form of the file is the one type.
        optional: a run without the file has no records.
    """

    names: Callable[[RunLayout], Iterable[Path]]
    sentence: str
    records: tuple[tuple[str, type], ...] = ()
    optional: bool = False

    def path(self, run: RunLayout) -> Path:
        """The path of the file; the first of its names."""
        return next(iter(self.names(run)))


def of_events(records: Mapping[str, type]) -> tuple[tuple[str, type], ...]:
    """The records of the events of a log, each after the names of its events."""
    return tuple(
        (", ".join(f"`{name}`" for name, each in records.items() if each is record), record)
        for record in dict.fromkeys(records.values())
    )


@dataclass(frozen=True, kw_only=True)
class Document(RunFile, Generic[_T]):
    """A JSON document.

    Attributes:
        form: of the document (`router.records.forms`).
    """

    form: type[_T]

    def read(self, run: RunLayout) -> _T:
        """Reads the document; one that is `optional` and missing is empty.

        Raises:
            RunFolderError: the file is missing, or a field is missing or malformed.
        """
        if self.optional and not self.path(run).exists():
            return self.form()
        return read_json(self.path(run), self.form)

    def read_if_there(self, run: RunLayout) -> _T | None:
        """As `read`; None if there is no such file."""
        return self.read(run) if self.path(run).exists() else None

    def write(self, run: RunLayout, value: _T) -> None:
        """Writes the document whole or not at all.

        Raises:
            OSError: it cannot be written.
        """
        write_json(self.path(run), value)


@dataclass(frozen=True, kw_only=True)
class Log(RunFile, Generic[_T]):
    """A file of JSON lines.

    Attributes:
        form: of each line (`router.records.forms`).
    """

    form: type[_T]

    def read(self, run: RunLayout, *, unfinished: bool = False) -> Iterator[tuple[str, _T]]:
        """Reads the records, each after its place (FILE:LINE).

        Args:
            unfinished: leave out a last line without an end, which its writer did not finish.

        Raises:
            RunFolderError: the file is missing, or a line is malformed.
        """
        if self.optional and not self.path(run).exists():
            return iter(())
        return read_lines(self.path(run), partial(parsed, self.form), unfinished=unfinished)

    def read_all(self, run: RunLayout) -> list[_T]:
        """The records without their places; the last one may be unfinished."""
        return [record for _, record in self.read(run, unfinished=True)]

    def write(self, run: RunLayout, records: Iterable[_T]) -> None:
        """Writes the file whole or not at all.

        Raises:
            OSError: it cannot be written.
        """
        write_lines(self.path(run), records)

    def append(self, run: RunLayout, record: _T) -> None:
        """Appends a record.

        Raises:
            OSError: the line cannot be written.
        """
        with self.path(run).open("ab") as file:
            file.write(json_line(record))


class Follower(Generic[_T]):
    """Reads the records of a file of JSON lines as another process writes them.

    Args:
        path: the file; it need not exist yet.
        made: makes a record of the place (FILE:LINE) and the bytes of a line, or raises `RunFolderError`.
    """

    def __init__(self, path: Path, made: Callable[[str, bytes], _T]) -> None:
        self._path = path
        self._made = made
        self._offset = 0
        self._lines = 0

    def read(self) -> list[_T]:
        """Returns the records of the lines that were completed since the last call.

        Raises:
            RunFolderError: a line is malformed.
        """
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                data = file.read()
        except FileNotFoundError:
            return []
        end = data.rfind(b"\n") + 1
        self._offset += end
        found = []
        for line in data[:end].split(b"\n")[:-1]:
            self._lines += 1
            found.append(self._made(f"{self._path}:{self._lines}", line))
        return found


def read_json(path: Path, form: type[_T]) -> _T:
    """Reads a JSON document of a form.

    Raises:
        RunFolderError: the file is missing, cannot be read, or is not of the form.
    """
    return parsed(form, str(path), _read(path))


def read_text(path: Path) -> str:
    """Reads a file of text in UTF-8.

    Raises:
        RunFolderError: the file is missing, cannot be read, or is not UTF-8.
    """
    try:
        return _read(path).decode()
    except UnicodeDecodeError as error:
        raise RunFolderError(f"{path}: expected text in UTF-8: {error}") from error


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise _unreadable(path, error) from error


def read_lines(
    path: Path, made: Callable[[str, bytes], _T], *, unfinished: bool = False
) -> Iterator[tuple[str, _T]]:
    """Reads the records of a file of JSON lines; `made` as of `Follower`, the rest as `Log.read`."""
    try:
        # In binary: a line ends at a line feed and nowhere else.
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if unfinished and not line.endswith(b"\n"):
                    return
                if not line.isspace():
                    where = f"{path}:{number}"
                    yield where, made(where, line)
    except OSError as error:
        raise _unreadable(path, error) from error


def parsed(form: type[_T], where: str, data: bytes) -> _T:
    """The value of a form that JSON gives.

    Raises:
        RunFolderError: the data is not JSON, or not of the form; names `where` and the field.
    """
    try:
        return parse(form, data)
    except ValueError as error:
        raise RunFolderError(f"{where}: {error}") from error


def check(form: type[_T], where: str, value: Any) -> _T:
    """As `parsed`, of a value that has been read already."""
    try:
        return convert(form, value)
    except ValueError as error:
        raise RunFolderError(f"{where}: {error}") from error


def write_lines(path: Path, records: Iterable[Any]) -> None:
    """Writes a file of JSON lines whole or not at all.

    Several processes may write the same file at a time.

    Raises:
        OSError: the file cannot be written.
    """
    for left in path.parent.glob(f"{path.name}.*.new"):
        if not Path("/proc", left.name.split(".")[-2]).exists():
            left.unlink(missing_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        with partial.open("wb") as file:
            file.writelines(map(json_line, records))
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def missing(path: Path) -> RunFolderError:
    """The error of a file or folder that a run folder lacks."""
    return RunFolderError(f"{path}: missing; was the emulation interrupted, or does it still run?")


def _unreadable(path: Path, error: OSError) -> RunFolderError:
    if isinstance(error, FileNotFoundError):
        return missing(path)
    return RunFolderError(f"{path}: {error.strerror}; expected a file of a run")
