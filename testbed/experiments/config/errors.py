"""The error of an experiment file, and the list in which its problems are collected."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from testbed.support.errors import InputError


class ExperimentError(InputError, ValueError):
    """An experiment file that cannot be used: one line per problem.

    Each line reads "FILE: [section] key: what is wrong; expected ...".
    """

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


class Problems:
    """Collects what is wrong with one file, so that all of it is reported together.

    `overridden` holds the dotted keys that the command line gave: the file is not to blame for those.
    """

    def __init__(self, file: str, overridden: Collection[str] = ()) -> None:
        self._file = file
        self._overridden = overridden
        self._lines: list[str] = []

    def add(self, section: str, key: str, what: str) -> None:
        """Notes a problem with a key of a section; "" is the top level, or the section as a whole."""
        dotted = f"{section}.{key}" if section and key else section or key
        places = [f"[{section}]"] if section else []
        if key:
            places.append(key)
        if dotted in self._overridden:
            places.append("(given as an override)")
        self._lines.append(": ".join(filter(None, (self._file, " ".join(places), what))))

    def __len__(self) -> int:
        return len(self._lines)

    def raise_if_any(self) -> None:
        """Raises `ExperimentError` if a problem was noted."""
        if self._lines:
            raise ExperimentError(self._lines)
