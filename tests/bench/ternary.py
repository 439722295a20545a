"""A ternary search tree as the papers have it, to compare `router.matching.counting` with."""

from __future__ import annotations

from collections.abc import Iterator

from router.predicates.model import Operator


class _Node:
    __slots__ = ("above", "below", "character", "found", "next")

    def __init__(self, character: str) -> None:
        self.character = character
        self.below: _Node | None = None
        self.next: _Node | None = None
        self.above: _Node | None = None
        #: Operators of the constraints whose value ends here.
        self.found: set[Operator] = set()


class TernaryTree:
    """Strings of `=`, prefix, suffix and substring constraints.

    Source: Carzaniga and Wolf, SIGCOMM 2003 (multi-operator index). `<` and `>` are left out.
    """

    def __init__(self) -> None:
        self._root: _Node | None = None

    def add(self, text: str, operator: Operator) -> None:
        """One more constraint; its text is not empty."""
        if self._root is None:
            self._root = _Node(text[0])
        node, at = self._root, 0
        while True:
            character = text[at]
            if character == node.character:
                at += 1
                if at == len(text):
                    node.found.add(operator)
                    return
                node.next = node.next or _Node(text[at])
                node = node.next
            elif character < node.character:
                node.below = node.below or _Node(character)
                node = node.below
            else:
                node.above = node.above or _Node(character)
                node = node.above

    def satisfied(self, value: str) -> set[tuple[str, Operator]]:
        """Text and operator of every constraint that the value satisfies."""
        return {
            (value[start:end], operator)
            for start in range(len(value))
            for end, node in self._walk(value, start)
            for operator in node.found
            if operator is Operator.SUBSTRING
            or (operator is Operator.PREFIX and start == 0)
            or (operator is Operator.SUFFIX and end == len(value))
            or (operator is Operator.EQ and start == 0 and end == len(value))
        }

    def _walk(self, value: str, start: int) -> Iterator[tuple[int, _Node]]:
        """Every end of a constraint's text that begins at `start`."""
        node, at = self._root, start
        while node is not None and at < len(value):
            character = value[at]
            if character == node.character:
                at += 1
                if node.found:
                    yield at, node
                node = node.next
            else:
                node = node.below if character < node.character else node.above
