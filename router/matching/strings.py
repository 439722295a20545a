"""Index of the constraints on one attribute of type string, for all operators.

The papers have one ternary search tree for `=`, `<`, `>`, prefixes, suffixes and substrings, and backtrack in
it. Here equality, prefixes, suffixes and substrings are hashed: only lengths that constraints have are cut
out of a value, all that are cut out for substrings meet the table in one set operation, and a look-up
compares whole strings at the speed of the hash. `<` and `>` are sorted arrays. `./run.sh bench match --figure
strings` measures both structures side by side.
"""

from __future__ import annotations

from collections import Counter

from router.matching.index import ConstraintIndex, HashedPart
from router.matching.links import Links
from router.predicates.model import Operator, Value

#: Cutting out a piece and hashing it costs about as much as trying two substrings one by one.
_TRIES_A_PIECE = 2


class PatternPart(HashedPart):
    """Prefixes, suffixes or substrings by text, and how many there are of each length."""

    def __init__(self) -> None:
        super().__init__()
        self.lengths: Counter[int] = Counter()

    def add(self, value: Value | None) -> Links:
        """See `HashedPart`."""
        if value not in self.links:
            self.lengths[len(str(value))] += 1
        return super().add(value)

    def drop(self, value: Value | None) -> None:
        """See `HashedPart`."""
        super().drop(value)
        length = len(str(value))
        self.lengths[length] -= 1
        if not self.lengths[length]:
            del self.lengths[length]


class StringIndex(ConstraintIndex):
    """Constraints on one name and the type string, each with its links."""

    def __init__(self) -> None:
        super().__init__()
        self._prefixes, self._suffixes, self._substrings = PatternPart(), PatternPart(), PatternPart()
        self._parts[Operator.PREFIX] = self._prefixes
        self._parts[Operator.SUFFIX] = self._suffixes
        self._parts[Operator.SUBSTRING] = self._substrings

    def satisfied(self, value: str) -> list[Links]:
        """See `ConstraintIndex`."""
        found = super().satisfied(value)
        size = len(value)
        if prefixes := self._prefixes.links:
            for length in self._prefixes.lengths:
                if length <= size and (links := prefixes.get(value[:length])):
                    found.append(links)
        if suffixes := self._suffixes.links:
            for length in self._suffixes.lengths:
                if length <= size and (links := suffixes.get(value[size - length :])):
                    found.append(links)
        if substrings := self._substrings.links:
            lengths = [length for length in self._substrings.lengths if length <= size]
            if _TRIES_A_PIECE * ((size + 1) * len(lengths) - sum(lengths)) < len(substrings):
                pieces = {value[at : at + n] for n in lengths for at in range(size - n + 1)}
                found += [substrings[piece] for piece in pieces & substrings.keys()]
            else:
                found += [links for part, links in substrings.items() if str(part) in value]
        return found
