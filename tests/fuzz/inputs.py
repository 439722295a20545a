"""Choices and bytes of an input, and files that end with the process."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

#: Takes one input.
Run = Callable[[bytes], object]
#: Bytes of an input that are used.
LONGEST = 4_096


class Source:
    """Choices and bytes from an input; 0 and nothing behind its end."""

    def __init__(self, data: bytes) -> None:
        self._data = data[:LONGEST]
        self._at = 0

    @property
    def left(self) -> int:
        return max(0, len(self._data) - self._at)

    def number(self, below: int) -> int:
        byte = self._data[self._at] if self.left else 0
        self._at += 1
        return byte % below

    def take(self, count: int) -> bytes:
        taken = self._data[self._at : self._at + count]
        self._at += count
        return taken

    def rest(self) -> bytes:
        return self.take(self.left)


def files_of_this_process() -> Path:
    """A folder of files for one process, which ends with it."""
    folder = Path(tempfile.mkdtemp(prefix="cbcb-fuzz-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
