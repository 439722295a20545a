"""Choices and bytes of an input, and files that end with the process."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

#: Takes one input.
Run = Callable[[bytes], object]
#: Bytes of an input that are used.
LONGEST = 4_096
#: Bytes at the limits of a rule: types, operators, lengths, the borders of UTF-8.
_TELLING = bytes((0, 1, 2, 3, 4, 5, 8, 9, 10, 11, 0x7F, 0x80, 0xBF, 0xC2, 0xE0, 0xED, 0xF0, 0xF4, 0xFE, 0xFF))


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


def mutated(random: Random, inputs: Sequence[bytes], changes: Sequence[int] = (1, 1, 2, 4, 8)) -> bytes:
    """An input with some changes: bytes, bits, pieces cut out, inserted, doubled or taken from another.

    Args:
        changes: the numbers of changes, each as probable as often as it is there.
    """
    data = bytearray(random.choice(inputs))
    for _ in range(random.choice(changes)):
        at = random.randrange(len(data) + 1)
        change = random.randrange(8)
        if change == 0:
            data[at : at + 1] = random.randbytes(1)
        elif change == 1:
            data[at : at + 1] = bytes((random.choice(_TELLING),))
        elif change == 2 and at < len(data):
            data[at] ^= 1 << random.randrange(8)
        elif change == 3:
            del data[at : at + random.randint(1, 16)]
        elif change == 4:
            data[at:at] = bytes(random.choices(_TELLING, k=random.randint(1, 16)))
        elif change == 5:
            data[at:at] = data[at : at + random.randint(1, 64)]
        elif change == 6:
            del data[at:]
        else:
            other = random.choice(inputs)
            data[at:] = other[random.randrange(len(other) + 1) :]
    return bytes(data[:LONGEST])


def files_of_this_process() -> Path:
    """A folder of files for one process, which ends with it."""
    folder = Path(tempfile.mkdtemp(prefix="cbcb-fuzz-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
