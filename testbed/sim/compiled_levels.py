"""F of a class as levels, in compiled code (`router.protocol.schemes.subtree_filter`).

A level has the filters for a number of hops. Nothing is written before all answers are known. Most filters
that an RA brings are related to none of a level; they are added to its list of filters without a copy.
"""

from __future__ import annotations

from router.native.compiler import I64, Address, Array, Compiler, Flag
from router.native.memory import int_at, long_at, put_int, short_at
from router.native.words import WORD_BITS, WORD_BYTES, lowest, put_word, word_at
from testbed.sim.compiled_sets import has, include, size
from testbed.sim.compiled_unions import unite
from testbed.sim.layout import (
    COUNT,
    DEPTHS,
    FILTER_COUNT,
    FILTERS_MAX,
    HEAD,
    HOPS,
    KINDS,
    KNOWN_ROW,
    LEVEL_WIDTH,
    LEVELS_MAX,
    LOWER_ROW,
    NEXT,
    OFFSET,
    RELATED,
    ROOM,
    Advert,
    Exit,
    Relation,
    Verdict,
)

callee = Compiler.callee

_WIDTH = int(Advert.WIDTH)
_RELATIONS = int(Advert.RELATIONS)
_SCRATCH = int(Advert.SCRATCH)
_NUMBERS = int(Advert.NUMBERS)
_LEVELS = int(Advert.LEVELS)
_LEVEL_COUNT = int(Advert.LEVEL_COUNT)
_STORE = int(Advert.STORE)
_STORED = int(Advert.STORED)
_HEADS = int(Advert.HEADS)
_FILTER = int(Advert.FILTER)
_ASK = -int(Exit.ASK)
_RELATE = -int(Exit.RELATE)
_LEND = -int(Exit.LEND)
_COVERED = int(Verdict.COVERED)
_PASSES = int(Verdict.PASSES)
_SEARCHED = int(Relation.SEARCHED)
_NEAR = int(Relation.NEAR)
_PLACES = int(Advert.PLACES)
_QUESTION_PAIRS = int(Advert.QUESTION_PAIRS)
_INT_BYTES = 4
_LEVEL_BYTES = LEVEL_WIDTH * _INT_BYTES
#: F of so many filters is compared filter by filter, and F of more as a row.
_SHORT = 1024


@callee
def widen(
    adverts: Array,
    nodes: Array,
    node: I64,
    own: I64,
    messages: Array,
    message: I64,
    hops: I64,
    left: I64,
    words: I64,
) -> I64:
    """Widens F of class `own` by an RA; see `admit`.

    Args:
        left: the pairs that may still be considered.
    """
    hops = min(hops, short_at(nodes[node, DEPTHS], own))
    head = adverts[_HEADS] + (nodes[node, HEAD] + own) * _INT_BYTES
    # The nearest level of as many hops or more, the last level, and how many there are.
    nearest, last, nearest_hops, count, below = -1, -1, 0, 0, 0
    level = int_at(head, 0)
    if level < -1:
        return _LEND
    while level >= 0:
        entry = adverts[_LEVELS] + level * _LEVEL_BYTES
        own_hops = int_at(entry, HOPS)
        if own_hops >= hops and (nearest < 0 or own_hops < nearest_hops):
            nearest, nearest_hops = level, own_hops
        if own_hops <= hops:
            below += 1
        last = level
        count += 1
        level = int_at(entry, NEXT)
    if count >= LEVELS_MAX:
        return _ASK
    alone = below == 0 or (below == 1 and nearest >= 0 and nearest_hops == hops)
    if alone and (nearest < 0 or int_at(adverts[_LEVELS] + nearest * _LEVEL_BYTES, COUNT) <= _SHORT):
        added = _unrelated(adverts, nearest, messages, message, left)
        if added < 0 and added != RELATED:
            return added
        if added >= 0:
            if added == 0:
                return _COVERED
            level = nearest
            if below == 0:
                level = _new_level(adverts, head, last, hops)
                if nearest >= 0:
                    _copy_level(adverts, nearest, level)
            numbers = adverts[_NUMBERS] + message * FILTERS_MAX * WORD_BYTES
            while added:
                _insert(adverts, level, long_at(numbers, lowest(added)))
                added &= added - 1
            return _PASSES
    width, scratch = adverts[_WIDTH], adverts[_SCRATCH]
    _expand(adverts, nearest, KNOWN_ROW, words)
    left = unite(adverts, KNOWN_ROW, messages, message, left, words)
    if left < 0:
        return left
    known = scratch + KNOWN_ROW * width * WORD_BYTES
    grew = _any(known, words) if nearest < 0 else _grew(adverts, nearest, known, words)
    if not grew:
        return _COVERED
    # Lower levels that are not equal to the nearest are united by themselves, before anything is written.
    lower = LOWER_ROW
    level = int_at(head, 0)
    while level >= 0:
        entry = adverts[_LEVELS] + level * _LEVEL_BYTES
        if int_at(entry, HOPS) <= hops and not _equal(adverts, level, nearest):
            _expand(adverts, level, lower, words)
            left = unite(adverts, lower, messages, message, left, words)
            if left < 0:
                return left
            lower += 1
        level = int_at(entry, NEXT)
    # The nearest is compared with others, so it is written last.
    lower, same = LOWER_ROW, -1
    level = int_at(head, 0)
    while level >= 0:
        entry = adverts[_LEVELS] + level * _LEVEL_BYTES
        if int_at(entry, HOPS) <= hops:
            if level == nearest:
                same = level
            elif _equal(adverts, level, nearest):
                _compress(adverts, level, KNOWN_ROW, words)
            else:
                _compress(adverts, level, lower, words)
                lower += 1
        level = int_at(entry, NEXT)
    if same >= 0:
        _compress(adverts, same, KNOWN_ROW, words)
    else:
        _compress(adverts, _new_level(adverts, head, last, hops), KNOWN_ROW, words)
    return _PASSES


@callee
def _new_level(adverts: Array, head: Address, last: I64, hops: I64) -> I64:
    """Adds a level without filters to a class, whose last level is `last` (-1: it has none)."""
    level = adverts[_LEVEL_COUNT]
    adverts[_LEVEL_COUNT] = level + 1
    entry = adverts[_LEVELS] + level * _LEVEL_BYTES
    put_int(entry, HOPS, hops)
    put_int(entry, NEXT, -1)
    put_int(entry, COUNT, 0)
    put_int(entry, ROOM, 0)
    put_int(entry, OFFSET, 0)
    if last < 0:
        put_int(head, 0, level)
    else:
        put_int(adverts[_LEVELS] + last * _LEVEL_BYTES, NEXT, level)
    return level


@callee
def _unrelated(adverts: Array, level: I64, messages: Array, message: I64, left: I64) -> I64:
    """The filters of an RA that a level (-1: none) lacks, if no filter of the level is related to them.

    Returns:
        Bits by their place in the RA; `RELATED`; or the negative of an `Exit`.
    """
    numbers, found = adverts[_NUMBERS] + message * FILTERS_MAX * WORD_BYTES, 0
    if left <= adverts[_QUESTION_PAIRS] * messages[message, FILTER_COUNT]:
        return RELATED
    store, count = 0, 0
    if level >= 0:
        entry = adverts[_LEVELS] + level * _LEVEL_BYTES
        store, count = adverts[_STORE] + int_at(entry, OFFSET) * _INT_BYTES, int_at(entry, COUNT)
    stride = adverts[_WIDTH] * WORD_BYTES
    for index in range(messages[message, FILTER_COUNT]):
        number = long_at(numbers, index)
        if _is_in(store, count, number):
            continue
        place = int_at(adverts[_PLACES], number)
        if place < 0:
            adverts[_FILTER] = number
            return _RELATE
        relations = adverts[_RELATIONS] + place * KINDS * stride
        for each in range(count):
            found_one = _relation_to(adverts, relations, number, int_at(store, each), stride)
            if found_one:
                return found_one
        for other in range(index):
            if found >> other & 1:
                found_one = _relation_to(adverts, relations, number, long_at(numbers, other), stride)
                if found_one:
                    return found_one
        found |= 1 << index
    return found


@callee
def _is_in(store: Address, count: I64, number: I64) -> Flag:
    """Whether a filter is among those of a level, which are in ascending order."""
    first, end = 0, count
    while first < end:
        middle = (first + end) >> 1
        if int_at(store, middle) < number:
            first = middle + 1
        else:
            end = middle
    return first < count and int_at(store, first) == number


@callee
def _relation_to(adverts: Array, relations: Address, number: I64, other: I64, stride: I64) -> I64:
    """As `_related`, of one filter to another."""
    if not has(relations + _NEAR * stride, other):
        return 0
    if not has(relations + _SEARCHED * stride, other):
        adverts[_FILTER] = number
        return _RELATE
    return RELATED


@callee
def _copy_level(adverts: Array, level: I64, other: I64) -> None:
    """Gives a level without room the filters of another level; the caller has made room."""
    entry, second = adverts[_LEVELS] + level * _LEVEL_BYTES, adverts[_LEVELS] + other * _LEVEL_BYTES
    count = int_at(entry, COUNT)
    _reserve(adverts, second, count)
    store = adverts[_STORE] + int_at(entry, OFFSET) * _INT_BYTES
    copy = adverts[_STORE] + int_at(second, OFFSET) * _INT_BYTES
    for index in range(count):
        put_int(copy, index, int_at(store, index))
    put_int(second, COUNT, count)


@callee
def _reserve(adverts: Array, entry: Address, count: I64) -> None:
    """Gives the level at an address room for so many filters, which it loses."""
    if count > int_at(entry, ROOM):
        room = count + count // 2 + 2
        put_int(entry, ROOM, room)
        put_int(entry, OFFSET, adverts[_STORED])
        adverts[_STORED] += room


@callee
def _insert(adverts: Array, level: I64, number: I64) -> None:
    """Adds a filter to a level, in ascending order; the caller has made room."""
    entry = adverts[_LEVELS] + level * _LEVEL_BYTES
    count, before = int_at(entry, COUNT), int_at(entry, OFFSET)
    _reserve(adverts, entry, count + 1)
    old = adverts[_STORE] + before * _INT_BYTES
    store, index = adverts[_STORE] + int_at(entry, OFFSET) * _INT_BYTES, count
    while index > 0 and int_at(old, index - 1) > number:
        put_int(store, index, int_at(old, index - 1))
        index -= 1
    put_int(store, index, number)
    if store != old:
        while index > 0:
            index -= 1
            put_int(store, index, int_at(old, index))
    put_int(entry, COUNT, count + 1)


@callee
def _expand(adverts: Array, level: I64, row: I64, words: I64) -> None:
    """Writes the filters of a level (-1: none) into a row of the scratch memory."""
    members = adverts[_SCRATCH] + row * adverts[_WIDTH] * WORD_BYTES
    for word in range(words):
        put_word(members, word, 0)
    if level < 0:
        return
    entry = adverts[_LEVELS] + level * _LEVEL_BYTES
    store = adverts[_STORE] + int_at(entry, OFFSET) * _INT_BYTES
    for index in range(int_at(entry, COUNT)):
        include(members, int_at(store, index))


@callee
def _grew(adverts: Array, level: I64, members: Address, words: I64) -> Flag:
    """Whether a set differs from the filters of a level."""
    entry = adverts[_LEVELS] + level * _LEVEL_BYTES
    store, count = adverts[_STORE] + int_at(entry, OFFSET) * _INT_BYTES, size(members, words)
    if count != int_at(entry, COUNT):
        return True
    for index in range(count):  # noqa: SIM110 - Numba compiles no generators
        if not has(members, int_at(store, index)):
            return True
    return False


@callee
def _equal(adverts: Array, level: I64, other: I64) -> Flag:
    """Whether two levels have the same filters; `other` may be -1, an empty level."""
    if level == other:
        return True
    entry = adverts[_LEVELS] + level * _LEVEL_BYTES
    count = int_at(entry, COUNT)
    if other < 0:
        return count == 0
    second = adverts[_LEVELS] + other * _LEVEL_BYTES
    if count != int_at(second, COUNT):
        return False
    store = adverts[_STORE] + int_at(entry, OFFSET) * _INT_BYTES
    theirs = adverts[_STORE] + int_at(second, OFFSET) * _INT_BYTES
    for index in range(count):  # noqa: SIM110 - Numba compiles no generators
        if int_at(store, index) != int_at(theirs, index):
            return False
    return True


@callee
def _compress(adverts: Array, level: I64, row: I64, words: I64) -> None:
    """Writes a row of the scratch memory as the filters of a level; the caller has made room."""
    members = adverts[_SCRATCH] + row * adverts[_WIDTH] * WORD_BYTES
    entry, count = adverts[_LEVELS] + level * _LEVEL_BYTES, size(members, words)
    _reserve(adverts, entry, count)
    put_int(entry, COUNT, count)
    store, index = adverts[_STORE] + int_at(entry, OFFSET) * _INT_BYTES, 0
    for word in range(words):
        item = word_at(members, word)
        while item:
            put_int(store, index, word * WORD_BITS + lowest(item))
            item &= item - 1
            index += 1


@callee
def _any(members: Address, words: I64) -> Flag:
    found = 0
    for word in range(words):
        found |= word_at(members, word)
    return found != 0
