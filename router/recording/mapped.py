"""A file that grows at its end without a system call for each record: its end is mapped into memory."""

from __future__ import annotations

import ctypes
import mmap
import os
from pathlib import Path

#: Bytes that are allocated and mapped at a time.
_WINDOW = 256 * 1024
_PAGE = mmap.ALLOCATIONGRANULARITY


class MappedFile:
    """Appends to a file.

    What was appended survives the end of the process, however it ends; the file then has zeros behind it, up
    to the end of its last window. `close` cuts them off. The bytes of one `append` begin to count when the
    first of them is not 0: it is written last.

    Args:
        path: the file; an older file is replaced.

    Raises:
        OSError: the file cannot be made, or there is no room for its first window.
    """

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        self._start = self._at = self._size = self._address = 0
        self._window: mmap.mmap | None = None
        try:
            self._grow(1)
        except BaseException:
            os.close(self._file)
            raise

    def append(self, data: bytes | bytearray | memoryview) -> None:
        """Appends bytes; their first is not 0.

        Raises:
            OSError: the file system has no room.
        """
        at, end = self._at, self._at + len(data)
        if end > self._size:
            self._grow(len(data))
            at, end = self._at, self._at + len(data)
        assert self._window is not None
        self._window[at + 1 : end] = data[1:]
        self._window[at] = data[0]
        self._at = end

    def reserve(self, length: int) -> tuple[int, int]:
        """Makes room for `length` bytes, which the caller writes to memory; then `appended`.

        Returns:
            The address behind what was appended, and the bytes of room there, valid until the next `append`.

        Raises:
            OSError: the file system has no room.
        """
        if self._at + length > self._size:
            self._grow(length)
        return self._address + self._at, self._size - self._at

    def reserved(self, start: int, end: int) -> bytes:
        """Bytes of that room."""
        assert self._window is not None
        return self._window[self._at + start : self._at + end]

    def appended(self, length: int) -> None:
        """Counts bytes that the caller has written."""
        self._at += length

    def close(self) -> None:
        """Cuts the file off behind what was appended."""
        if self._window is not None:
            self._window.close()
            self._window = None
        try:
            os.ftruncate(self._file, self._start + self._at)
        finally:
            os.close(self._file)

    def leave(self) -> None:
        """Unmaps the file as it is, in a process whose child continues it; the object is of no use then."""
        if self._window is not None:
            self._window.close()
            self._window = None
        os.close(self._file)

    def _grow(self, length: int) -> None:
        """Maps a window with room for `length` bytes behind what was appended."""
        place = self._start + self._at
        start = place // _PAGE * _PAGE
        size = max(_WINDOW, -(-(place - start + length) // _PAGE) * _PAGE)
        # Room for all of it now: a page that cannot be written later would end the process (SIGBUS).
        os.posix_fallocate(self._file, start, size)
        window = mmap.mmap(self._file, size, offset=start)
        if self._window is not None:
            self._window.close()
        # The address stays as long as the window does; an object that refers to it would keep it open.
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(window))
        self._window, self._start, self._at, self._size = window, start, place - start, size
