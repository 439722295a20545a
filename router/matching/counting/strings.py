"""Index of the constraints on one attribute of type string, for all operators.

The papers search one ternary search tree, with backtracking, for `=`, `<`, `>`, prefixes, suffixes and
substrings. This index hashes equalities, sorts the bounds of `<` and `>`, and hashes prefixes and substrings
by their first characters, and suffixes by their last ones, at most four. The grams of a value lead to the few
constraints that it can satisfy. `./run.sh bench match --figure strings` compares it with a search tree.
"""

from __future__ import annotations

from router.matching.counting.index import ConstraintIndex, Links
from router.predicates.model import Operator, Value

_GRAM = 4
#: Looking up a gram takes about the time of searching a value of this length for a substring.
_LONG = 64


class PatternPart:
    """The prefixes, suffixes or substrings by their grams.

    Args:
        at_end: whether the grams are the last characters.
    """

    def __init__(self, at_end: bool = False) -> None:
        self._at_end = at_end
        #: Size of the gram (less than `_GRAM`: the whole text) -> gram -> text -> its links.
        self.by_size: dict[int, dict[str, dict[str, Links]]] = {}
        self.texts = 0
        #: Characters of all texts.
        self.length = 0

    def _gram(self, text: str) -> str:
        return text[-_GRAM:] if self._at_end else text[:_GRAM]

    def add(self, value: Value | None) -> Links:
        """Returns the links of a text; adds the text if it is absent."""
        text = str(value)
        gram = self._gram(text)
        texts = self.by_size.setdefault(len(gram), {}).setdefault(gram, {})
        links = texts.get(text)
        if links is None:
            links = texts[text] = Links()
            self.texts += 1
            self.length += len(text)
        return links

    def find(self, value: Value | None) -> Links:
        """Returns the links of a text that was added."""
        text = str(value)
        gram = self._gram(text)
        return self.by_size[len(gram)][gram][text]

    def drop(self, value: Value | None) -> None:
        """Removes a text that was added."""
        text = str(value)
        gram = self._gram(text)
        grams = self.by_size[len(gram)]
        del grams[gram][text]
        self.texts -= 1
        self.length -= len(text)
        if not grams[gram]:
            del grams[gram]
            if not grams:
                del self.by_size[len(gram)]


class StringIndex(ConstraintIndex):
    """Constraints on one name and the type string, each with its links."""

    def __init__(self) -> None:
        super().__init__()
        self._prefixes, self._suffixes, self._substrings = PatternPart(), PatternPart(True), PatternPart()
        self._parts[Operator.PREFIX] = self._prefixes
        self._parts[Operator.SUFFIX] = self._suffixes
        self._parts[Operator.SUBSTRING] = self._substrings

    def satisfied(self, value: str) -> list[Links]:
        """See `ConstraintIndex`."""
        found = super().satisfied(value)
        # The empty gram is in every value; value[-0:] would be the whole value.
        for size, grams in self._prefixes.by_size.items():
            if texts := grams.get(value[:size]):
                found += [links for text, links in texts.items() if value.startswith(text)]
        for size, grams in self._suffixes.by_size.items():
            if texts := grams.get(value[-size:] if size else ""):
                found += [links for text, links in texts.items() if value.endswith(text)]
        if self._substrings.texts:
            found += self._satisfied_substrings(value)
        return found

    def _satisfied_substrings(self, value: str) -> list[Links]:
        by_size = self._substrings.by_size
        if len(value) > _LONG + self._substrings.texts:
            pairs = (
                pair for grams in by_size.values() for bucket in grams.values() for pair in bucket.items()
            )
            return [links for text, links in pairs if text in value]
        # By text, so that one that occurs several times in the value counts once.
        found: dict[str, Links] = {}
        for size, grams in by_size.items():
            for start in range(len(value) - size + 1):
                if texts := grams.get(value[start : start + size]):
                    found.update(
                        (text, links) for text, links in texts.items() if value.startswith(text, start)
                    )
        return list(found.values())
