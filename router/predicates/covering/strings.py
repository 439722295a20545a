"""Intervals of strings as unions of cones and single strings.

Keys are UTF-8 bytes; `TOP` is above every key. A *cone* is the set of all strings with a given prefix. Every
interval is a finite union of cones and single strings. Questions about suffixes and substrings are therefore
decidable: in a cone, any text can follow the prefix.
"""

from __future__ import annotations

from dataclasses import dataclass

#: Above every string (0xff occurs in no UTF-8 text).
TOP = b"\xff"
_LAST = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)
#: An interval whose two bounds have more bytes together is not taken apart.
_LENGTH_LIMIT = 2000


def after_cone(prefix: str) -> bytes:
    """Returns the lowest key above all strings with this prefix."""
    stem = prefix.rstrip(chr(_LAST))
    if not stem:
        return TOP
    code = ord(stem[-1]) + 1
    return (stem[:-1] + chr(_SURROGATES.stop if code in _SURROGATES else code)).encode()


@dataclass(frozen=True, slots=True)
class Parts:
    """An interval of strings as a union of cones and single strings.

    Attributes:
        points: the strings that are in none of the cones.
        stems: for each cone, or family of sibling cones, the longest common prefix of its strings. If a
            text is contained in no stem, every family has a cone whose prefix does not contain the text.
    """

    points: tuple[str, ...]
    stems: tuple[str, ...]


def take_apart(low: bytes, high: bytes) -> Parts | None:
    """Returns the parts of ``[low, high)``, where ``low < high``; None if the bounds are too long."""
    if len(low) + len(high) > _LENGTH_LIMIT:
        return None
    first = low.decode()
    if high == TOP:
        return Parts((), (first, *_above(first, 0)))
    end = high.decode()
    common = 0
    while common < min(len(first), len(end)) and first[common] == end[common]:
        common += 1
    if common == len(first):
        return Parts(tuple(end[:i] for i in range(common, len(end))), tuple(_below(end, common)))
    stems = [first, *_above(first, common + 1)]
    stems += _family(end[:common], _rank(first[common]) + 1, _rank(end[common]) - 1)
    stems += _below(end, common + 1)
    return Parts(tuple(end[:i] for i in range(common + 1, len(end))), tuple(stems))


def _above(text: str, start: int) -> list[str]:
    """The stems of the strings above `text` that share its first `start` characters."""
    last = _rank(chr(_LAST))
    return [stem for i in range(start, len(text)) for stem in _family(text[:i], _rank(text[i]) + 1, last)]


def _below(text: str, start: int) -> list[str]:
    """The stems of strings below `text` that share its first `start` characters and are no prefix of it."""
    return [stem for i in range(start, len(text)) for stem in _family(text[:i], 0, _rank(text[i]) - 1)]


def _family(prefix: str, first: int, last: int) -> list[str]:
    """The stem of the cones ``prefix + c`` for c of rank first to last; empty if there is no such c."""
    if first > last:
        return []
    return [prefix + _character(first)] if first == last else [prefix]


def _rank(character: str) -> int:
    """The number of characters below this one; surrogates do not count."""
    code = ord(character)
    return code if code < _SURROGATES.start else code - len(_SURROGATES)


def _character(rank: int) -> str:
    return chr(rank if rank < _SURROGATES.start else rank + len(_SURROGATES))
