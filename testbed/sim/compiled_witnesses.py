"""Messages of a filter that sets of other filters leave out, in compiled code.

If several filters do not cover a filter together, it matches some message that none of them matches. No
set of filters that do not match this message covers the filter: an intersection of sets answers for it.
Messages are found by the removal of boxes: a box has an interval of ranks for each attribute of the filter
(`testbed.sim.ranks`), and its lowest corner is a message. A filter that matches the message is removed from
the box, which leaves boxes with higher corners.
"""

from __future__ import annotations

from router.native.compiler import I64, Address, Array, Compiler, Flag
from router.native.memory import byte_at, int_at, long_at, put_byte, put_long
from router.native.words import WORD_BITS, WORD_BYTES, lowest, put_word, word_at
from testbed.sim.compiled_sets import include
from testbed.sim.layout import (
    BOXED_MAX,
    BOXES_WAITING,
    EVERY_TEXT,
    HAS_PART,
    HAS_TEXT,
    IS_TEXT,
    KINDS,
    NUMBER_OF_PATTERN,
    SOME_TEXTS,
    TEXTS_OF,
    WITNESSES_MAX,
    Advert,
    Relation,
)

callee = Compiler.callee

_WIDTH, _RELATIONS, _BOXES = int(Advert.WIDTH), int(Advert.RELATIONS), int(Advert.BOXES)
_SHAPES, _RECORDS, _SEARCH = int(Advert.SHAPES), int(Advert.RECORDS), int(Advert.SEARCH)
_PLACES, _REPLACED = int(Advert.PLACES), int(Advert.REPLACED)
_POSSIBLE, _WITNESSES = int(Relation.POSSIBLE_COVERS), len(Relation)

#: Boxes that a search removes filters from at most, and boxes that a filter consists of at most.
_BOXES_MAX, _FIRST_BOXES = 256, 16
_BOX_BYTES = 2 * BOXED_MAX * WORD_BYTES
#: Items of a record before its first attribute, and of an attribute before its first interval.
_HEADER, _ATTRIBUTE = 1, 3


@callee
def find_witness(adverts: Array, number: I64, others: Address, count: I64, words: I64) -> Flag:
    """Looks for a message of a filter that matches none of others, and keeps those that match it as a row.

    Args:
        others: their numbers (int64), of possible covers of the filter.

    Returns:
        Whether a message was found.
    """
    if not left_out(adverts, number, others, count):
        return False
    relations = adverts[_RELATIONS] + int_at(adverts[_PLACES], number) * KINDS * adverts[_WIDTH] * WORD_BYTES
    kind = byte_at(adverts[_BOXES], number)
    witness = kind >> 1
    if witness < WITNESSES_MAX:
        put_byte(adverts[_BOXES], number, kind + 2)
    else:
        witness = adverts[_REPLACED] % WITNESSES_MAX
        adverts[_REPLACED] += 1
    stride = adverts[_WIDTH] * WORD_BYTES
    row, possible = relations + (_WITNESSES + witness) * stride, relations + _POSSIBLE * stride
    for word in range(words):
        put_word(row, word, 0)
        item = word_at(possible, word)
        while item:
            other = word * WORD_BITS + lowest(item)
            item &= item - 1
            if _matches(adverts, other):
                include(row, other)
    return True


@callee
def left_out(adverts: Array, number: I64, others: Address, count: I64) -> Flag:
    """Whether a message of a filter is found that matches none of others.

    The message is at the lowest corner of the first box then.
    """
    own, search = _record(adverts, number), adverts[_SEARCH]
    if own == 0 or long_at(own, 0) > BOXED_MAX:
        return False
    for each in range(count):
        if int_at(adverts[_SHAPES], long_at(others, each)) < 0:
            return False
    waiting, attributes = _first_boxes(adverts, own), long_at(own, 0)
    for _ in range(_BOXES_MAX):
        if waiting == 0:
            return False
        _copy(search + waiting * _BOX_BYTES, search, attributes)
        waiting -= 1
        if not _has_corner(own, search):
            continue
        found = -1
        for each in range(count):
            if _matches(adverts, long_at(others, each)):
                found = long_at(others, each)
                break
        if found < 0:
            return True
        if waiting + attributes > BOXES_WAITING:
            return False
        waiting = _remove(adverts, found, attributes, waiting)
    return False


@callee
def _record(adverts: Array, number: I64) -> Address:
    """The record of a filter; 0: there is none."""
    place = int_at(adverts[_SHAPES], number)
    return 0 if place < 0 else adverts[_RECORDS] + place * WORD_BYTES


@callee
def _copy(box: Address, other: Address, attributes: I64) -> None:
    for index in range(2 * attributes):
        put_long(other, index, long_at(box, index))


@callee
def _first_boxes(adverts: Array, own: Address) -> I64:
    """Writes the boxes of a filter, and the place and pattern of each of its attributes.

    Returns:
        Their number; 0: there are too many.
    """
    search, attributes, boxes = adverts[_SEARCH], long_at(own, 0), 1
    positions = search + (BOXES_WAITING + 1) * _BOX_BYTES
    entry = own + _HEADER * WORD_BYTES
    for index in range(attributes):
        put_long(positions, 2 * long_at(entry, 0), index)
        put_long(positions, 2 * long_at(entry, 0) + 1, long_at(entry, 1))
        intervals = long_at(entry, 2)
        boxes *= intervals
        if boxes > _FIRST_BOXES:
            return 0
        entry += (_ATTRIBUTE + 2 * intervals) * WORD_BYTES
    for each in range(boxes):
        box, choice = search + (1 + each) * _BOX_BYTES, each
        entry = own + _HEADER * WORD_BYTES
        for index in range(attributes):
            intervals = long_at(entry, 2)
            chosen = _ATTRIBUTE + 2 * (choice % intervals)
            choice //= intervals
            put_long(box, 2 * index, long_at(entry, chosen))
            put_long(box, 2 * index + 1, long_at(entry, chosen + 1))
            entry += (_ATTRIBUTE + 2 * intervals) * WORD_BYTES
    return boxes


@callee
def _has_corner(own: Address, box: Address) -> Flag:
    """Raises the lowest corner of a box to texts of the filter's patterns; False if the box has none."""
    entry = own + _HEADER * WORD_BYTES
    for index in range(long_at(own, 0)):
        pattern = long_at(entry, 1)
        if pattern:
            rank, end, texts = (
                long_at(box, 2 * index),
                long_at(box, 2 * index + 1),
                long_at(pattern, HAS_TEXT),
            )
            while rank < end and not byte_at(texts, rank):
                rank += 1
            if rank == end:
                return False
            put_long(box, 2 * index, rank)
        entry += (_ATTRIBUTE + 2 * long_at(entry, 2)) * WORD_BYTES
    return True


@callee
def _matches(adverts: Array, number: I64) -> Flag:
    """Whether a filter may match the lowest corner of the first box; True if it has no record."""
    entry, search = _record(adverts, number), adverts[_SEARCH]
    if entry == 0:
        return True
    positions, attributes = search + (BOXES_WAITING + 1) * _BOX_BYTES, long_at(entry, 0)
    entry += _HEADER * WORD_BYTES
    for _ in range(attributes):
        attribute, pattern, intervals = long_at(entry, 0), long_at(entry, 1), long_at(entry, 2)
        rank = long_at(search, 2 * long_at(positions, 2 * attribute))
        if _interval_with(entry, intervals, rank) < 0:
            return False
        if pattern and not _may_have(pattern, long_at(positions, 2 * attribute + 1), rank):
            return False
        entry += (_ATTRIBUTE + 2 * intervals) * WORD_BYTES
    return True


@callee
def _may_have(pattern: Address, own: Address, rank: I64) -> Flag:
    """Whether the text at a rank, of the pattern `own` (0: the key itself), may have another pattern."""
    if own == 0:
        return byte_at(long_at(pattern, IS_TEXT), rank) != 0
    found = byte_at(long_at(own, TEXTS_OF), long_at(pattern, NUMBER_OF_PATTERN))
    if found == SOME_TEXTS:
        return byte_at(long_at(pattern, HAS_PART), rank) != 0
    return found == EVERY_TEXT


@callee
def _interval_with(entry: Address, intervals: I64, rank: I64) -> I64:
    """The place of the interval with a rank, of an attribute; -1: none has it."""
    for index in range(intervals):
        place = _ATTRIBUTE + 2 * index
        if long_at(entry, place) <= rank < long_at(entry, place + 1):
            return place
    return -1


@callee
def _remove(adverts: Array, number: I64, attributes: I64, waiting: I64) -> I64:
    """Removes a filter that matches the lowest corner of the first box from that box.

    Returns:
        The number of boxes that wait then.
    """
    entry, search = _record(adverts, number), adverts[_SEARCH]
    positions, constrained = search + (BOXES_WAITING + 1) * _BOX_BYTES, long_at(entry, 0)
    entry += _HEADER * WORD_BYTES
    for _ in range(constrained):
        index, intervals = long_at(positions, 2 * long_at(entry, 0)), long_at(entry, 2)
        rank, end = long_at(search, 2 * index), long_at(search, 2 * index + 1)
        # Of texts with a suffix or substrings, only this one is known.
        high = rank + 1 if long_at(entry, 1) else long_at(entry, _interval_with(entry, intervals, rank) + 1)
        if high < end:
            waiting += 1
            box = search + waiting * _BOX_BYTES
            _copy(search, box, attributes)
            put_long(box, 2 * index, high)
            put_long(search, 2 * index + 1, high)
        entry += (_ATTRIBUTE + 2 * intervals) * WORD_BYTES
    return waiting
