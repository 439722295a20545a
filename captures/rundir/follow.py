"""Following a JSON Lines file of a run folder that another process writes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, TypeVar

from captures.rundir.files import parse_line

_T = TypeVar("_T")


class Follower(Generic[_T]):
    """Reads the records of a file as they come.

    Args:
        path: the file; it need not exist yet.
        parse: makes a record of an object and its place (FILE:LINE), and raises `RunFolderError` if the
            object is malformed: `application_event`, for example.
    """

    def __init__(self, path: Path, parse: Callable[[str, dict[str, Any]], _T]) -> None:
        self._path = path
        self._parse = parse
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
            where = f"{self._path}:{self._lines}"
            found.append(self._parse(where, parse_line(where, line)))
        return found
