"""Whether a message passes the tests of a filter's records."""

# ruff: noqa: ANN001, ANN202
from __future__ import annotations

import numpy as np

from router.matching.compiled.attributes import AT, KEY, LENGTH, TEXT
from router.matching.compiled.compiler import inlined
from router.matching.compiled.layout import ACCESSES, Test

_RANGE, _DIFFERS, _IS_STRING, _SAME = int(Test.RANGE), int(Test.DIFFERS), int(Test.IS_STRING), int(Test.EQUAL)
_UNEQUAL, _STARTS, _ENDS, _HOLDS = int(Test.UNEQUAL), int(Test.PREFIX), int(Test.SUFFIX), int(Test.SUBSTRING)
_BELOW, _AT_MOST, _ABOVE = int(Test.BELOW), int(Test.AT_MOST), int(Test.ABOVE)


@inlined
def same_bytes(data, at, text, start, length):  # type: ignore[no-untyped-def]
    """Whether data[at:at + length] is text[start:start + length]."""
    for offset in range(length):  # noqa: SIM110 - a loop that compiles
        if data[at + offset] != text[start + offset]:
            return False
    return True


@inlined
def take(answer, view, begin, end, number):  # type: ignore[no-untyped-def]
    """The interfaces of these postings match. Returns the number found up to now."""
    for posting in range(begin, end):
        if number >= answer.wanted:
            break
        which = view.interface[posting]
        if answer.open[which]:
            answer.open[which] = 0
            answer.found[number] = which
            number += 1
    return number


@inlined
def verify(message, view, answer, have, begin, end, number):  # type: ignore[no-untyped-def]
    """As `take`, of those of these postings whose records the message passes."""
    for posting in range(begin, end):
        which = view.interface[posting]
        if (
            answer.open[which]
            and not view.needs[posting] & ~have
            and _passes_all(message, view, view.record_start[posting], view.record_start[posting + 1])
        ):
            answer.open[which] = 0
            answer.found[number] = which
            number += 1
            if number >= answer.wanted:
                break
    return number


@inlined
def _passes_all(message, view, begin, end):  # type: ignore[no-untyped-def]
    for record in range(begin, end):
        code = view.tests[record]
        attribute = message.attribute_of[code // ACCESSES]
        if attribute < 0 or not _passes(
            message, attribute, view, code % ACCESSES, view.a[record], view.b[record]
        ):
            return False
    return True


@inlined
def _passes(message, attribute, view, test, a, b):  # type: ignore[no-untyped-def]
    """Whether the value of an attribute passes a test."""
    key = message.rows[attribute, KEY]
    if test == _RANGE:
        return a <= key <= b
    if test == _SAME:
        return message.rows[attribute, TEXT] == b
    if test == _DIFFERS:
        return key != a
    if test == _IS_STRING:
        return True
    if test == _UNEQUAL:
        return message.rows[attribute, TEXT] != b
    at, length = message.rows[attribute, AT], message.rows[attribute, LENGTH]
    start = np.int64(view.string_start[b])
    size = view.string_start[b + 1] - start
    if test <= _HOLDS:
        if size > length:
            return False
        if test == _STARTS:
            return same_bytes(message.data, at, view.text, start, size)
        if test == _ENDS:
            return same_bytes(message.data, at + length - size, view.text, start, size)
        return _contains(message.data, at, length, view.text, start, size)
    if key != a:
        return (key < a) == (test <= _AT_MOST)
    order = _compare(message.data, at, length, view.text, start, size)
    if test == _BELOW:
        return order < 0
    if test == _AT_MOST:
        return order <= 0
    return order > 0 if test == _ABOVE else order >= 0


@inlined
def _compare(data, at, length, text, start, size):  # type: ignore[no-untyped-def]
    """Negative, 0 or positive as data[at:at + length] is below, equal to or above text[start:start + size]."""
    for offset in range(min(length, size)):
        if data[at + offset] != text[start + offset]:
            return np.int64(-1) if data[at + offset] < text[start + offset] else np.int64(1)
    return np.int64(length - size)


@inlined
def _contains(data, at, length, text, start, size):  # type: ignore[no-untyped-def]
    for first in range(at, at + length - size + 1):
        if data[first] == text[start] and same_bytes(data, first, text, start, size):
            return True
    return False
