"""Bounds on the rows to read, and what they exclude."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from captures.frames.columns import TYPES
from captures.frames.parts import FilePart


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of the packets to read.

    Attributes:
        first_ns, last_ns: only packets captured in [first_ns, last_ns] (None: no bound).
        types: only CBCB frames of these types (None: any packet).
        of_file: only files for which these conditions may hold: a column that is constant in a file, and the
            condition of its value.
    """

    first_ns: int | None = None
    last_ns: int | None = None
    types: frozenset[str] | None = None
    of_file: tuple[tuple[str, Callable[[Any], bool]], ...] = ()

    def both(self, other: Bounds) -> Bounds:
        """The packets within both bounds."""
        types = [types for types in (self.types, other.types) if types is not None]
        return Bounds(
            max((at for at in (self.first_ns, other.first_ns) if at is not None), default=None),
            min((at for at in (self.last_ns, other.last_ns) if at is not None), default=None),
            frozenset.intersection(*types) if types else None,
            (*self.of_file, *other.of_file),
        )

    def needs_part(self, part: FilePart) -> bool:
        """Whether a part can hold a packet within the bounds, as far as its index tells."""
        if part.first_ns is not None and part.last_ns is not None:
            if self.first_ns is not None and part.last_ns < self.first_ns:
                return False
            if self.last_ns is not None and part.first_ns > self.last_ns:
                return False
        if self.types is not None and part.types is not None:
            return not self.types.isdisjoint(TYPES.get(number) for number in part.types)
        return True

    def needs_file(self, constants: Mapping[str, object]) -> bool:
        """Whether a file can hold a packet within the bounds, by the values of its constant columns."""
        return all(may_hold(constants[name]) for name, may_hold in self.of_file if name in constants)
