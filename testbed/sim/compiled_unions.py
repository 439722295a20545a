"""Unions of sets of filters, in compiled code.

They are those of `FilterPool.add`, with the same pairs of filters counted (`FilterPool.bounded`). Where
several filters may cover one together, or filters may be merged, the pool is asked, and its answers are
remembered. Of a filter that some filters do not cover, a message that they leave out is remembered as well
(`testbed.sim.compiled_witnesses`): other filters that leave it out do not cover it either.
"""

from __future__ import annotations

from router.native.compiler import I64, Address, Array, Compiler, Flag
from router.native.memory import byte_at, int_at, long_at, put_long
from router.native.words import WORD_BITS, WORD_BYTES, lowest, ones, put_word, word_at
from router.predicates.covering.boxes import BOXES_MAX, CANDIDATES_MAX
from testbed.sim.compiled_sets import exclude, has, include, meets
from testbed.sim.compiled_witnesses import find_witness
from testbed.sim.layout import (
    ABOUT,
    ASKED,
    FILTER_COUNT,
    FILTERS_MAX,
    FIRST_OTHER,
    FOUND_ROW,
    HASH,
    KINDS,
    OTHERS,
    RELATED,
    WAITING_ROW,
    Advert,
    Exit,
    Question,
    Relation,
)

callee = Compiler.callee

_WIDTH = int(Advert.WIDTH)
_RELATIONS = int(Advert.RELATIONS)
_BOXES = int(Advert.BOXES)
_SCRATCH = int(Advert.SCRATCH)
_NUMBERS = int(Advert.NUMBERS)
_FILTER = int(Advert.FILTER)
_ASK = -int(Exit.ASK)
_RELATE = -int(Exit.RELATE)
_QUESTION = -int(Exit.QUESTION)
_FULL = -int(Exit.FULL)
_SEVERAL = int(Question.COVERED)
_JOINTLY = int(Question.COVERED_JOINTLY)
_MERGED = int(Question.MERGED)
_ORDER = int(Question.ORDER)
_ANSWERS = int(Advert.ANSWERS)
_SLOTS = int(Advert.SLOTS)
_SLOT = int(Advert.SLOT)
_MEMORY = int(Advert.MEMORY)
_MEMORISED = int(Advert.MEMORISED)
_MEMORY_CAPACITY = int(Advert.MEMORY_CAPACITY)
_SEARCHED = int(Relation.SEARCHED)
_POSSIBLE = int(Relation.POSSIBLE_COVERS)
_COVERS = int(Relation.COVERS)
_LOW = int(Relation.LOW_CORNER)
_HIGH = int(Relation.HIGH_CORNER)
_EXCEPT = int(Relation.COVERS_EXCEPT)
_AFFECTED = int(Relation.AFFECTED)
_MERGEABLE = int(Relation.MERGEABLE)
_POSSIBLY_COVERED = int(Relation.POSSIBLY_COVERED)
_IS_COVERED = int(Relation.COVERED)
_EXCEPT_ONE = int(Relation.COVERED_EXCEPT_ONE)
_COSTLY = int(Relation.COSTLY)
_WITNESSES = len(Relation)
_NEAR = int(Relation.NEAR)
_PLACES = int(Advert.PLACES)
_COMPLETE = int(Advert.COMPLETE)
_QUESTION_PAIRS = int(Advert.QUESTION_PAIRS)
#: As in `router.predicates.covering.pool`.
_SEARCH_PAIRS = 16
_PATTERN_PAIRS = 8
_MULTIPLIER = 0x2545F4914F6CDD1D


@callee
def related(adverts: Array, number: I64, members: Address, words: I64) -> I64:
    """Whether filters of a row can cover a filter, or be affected by it.

    Returns:
        0: none; `RELATED`; or the negative of an `Exit`.
    """
    place = int_at(adverts[_PLACES], number)
    if place < 0:
        adverts[_FILTER] = number
        return _RELATE
    stride, found = adverts[_WIDTH] * WORD_BYTES, 0
    relations = adverts[_RELATIONS] + place * KINDS * stride
    near = relations + _NEAR * stride
    for word in range(words):
        found |= word_at(members, word) & word_at(near, word)
    if found == 0:
        return 0
    return _RELATE if _lacks(adverts, members, number, relations, words) else RELATED


@callee
def _lacks(adverts: Array, members: Address, number: I64, relations: Address, words: I64) -> Flag:
    """Whether relations of a filter to members are missing; the filter is then asked for (`_RELATE`)."""
    searched, missing = relations + _SEARCHED * adverts[_WIDTH] * WORD_BYTES, 0
    for word in range(int_at(adverts[_COMPLETE], number), words):
        missing |= word_at(members, word) & ~word_at(searched, word)
    if missing:
        adverts[_FILTER] = number
    return missing != 0


@callee
def unite(adverts: Array, row: I64, messages: Array, message: I64, left: I64, words: I64) -> I64:
    """Adds the filters of an RA to a row of the scratch memory; see `FilterPool.add`.

    Returns:
        The pairs that may still be considered, or the negative of an `Exit`.
    """
    stride = adverts[_WIDTH] * WORD_BYTES
    members = adverts[_SCRATCH] + row * stride
    numbers = adverts[_NUMBERS] + message * FILTERS_MAX * WORD_BYTES
    for index in range(messages[message, FILTER_COUNT]):
        number = long_at(numbers, index)
        if has(members, number):
            continue
        left = max(0, left - adverts[_QUESTION_PAIRS])
        if left == 0:
            # All further filters are added, too: nothing is left for them.
            include(members, number)
            continue
        found = related(adverts, number, members, words)
        if found == 0:
            include(members, number)
            continue
        if found != RELATED:
            return found
        answer = _covered(adverts, members, number, left, words, 1)
        if answer < 0:
            return answer
        left = answer >> 1
        if not answer & 1:
            left = _add(adverts, members, number, left, words)
            if left < 0:
                return left
    return left


@callee
def _add(adverts: Array, members: Address, number: I64, left: I64, words: I64) -> I64:
    """Adds a filter that the members do not cover; see `FilterPool._with`.

    Returns:
        The pairs that may still be considered, or the negative of an `Exit`.
    """
    stride = adverts[_WIDTH] * WORD_BYTES
    waiting, count = adverts[_SCRATCH] + WAITING_ROW * stride, 1
    put_long(waiting, 0, number)
    while count:
        count -= 1
        new = long_at(waiting, count)
        place = int_at(adverts[_PLACES], new)
        if place < 0:
            adverts[_FILTER] = new
            return _RELATE
        relations = adverts[_RELATIONS] + place * KINDS * stride
        affecting, merging = relations + _AFFECTED * stride, relations + _MERGEABLE * stride
        affected = mergeable = 0
        for word in range(words):
            item = word_at(members, word)
            affected |= item & word_at(affecting, word)
            mergeable |= item & word_at(merging, word)
        if _lacks(adverts, members, new, relations, words):
            return _RELATE
        if not affected:
            include(members, new)
            continue
        if new != number:
            if has(members, new):
                continue
            answer = _covered(adverts, members, new, left, words, 0)
            if answer < 0:
                return answer
            left = answer >> 1
            if answer & 1:
                continue
        # With no pairs left, nothing is merged.
        if mergeable and left:
            answer = _answer(adverts, members, merging, new, _MERGED, words)
            if answer < 0:
                return answer
            left -= long_at(adverts[_MEMORY], answer)
            if left <= 0:
                return _ASK
            answer += 1
            removed = long_at(adverts[_MEMORY], answer)
            for each in range(removed):
                exclude(members, long_at(adverts[_MEMORY], answer + 1 + each))
            if removed:
                answer += 1 + removed
                added = long_at(adverts[_MEMORY], answer)
                if count + added > adverts[_WIDTH]:
                    return _ASK
                for each in range(added):
                    put_long(waiting, count, long_at(adverts[_MEMORY], answer + 1 + each))
                    count += 1
                continue
        left = _without_covered(adverts, members, new, relations, left, words)
        if left < 0:
            return left
        include(members, new)
    return left


@callee
def _answer(
    adverts: Array, members: Address, relation: Address, number: I64, question: I64, words: I64
) -> I64:
    """The place of the answer to a question about a filter and those members to which it has a relation.

    Returns:
        A place in `Advert.MEMORY`, or the negative of an `Exit`: the question is the last entry.
    """
    memory, entry = adverts[_MEMORY], adverts[_MEMORISED]
    if entry + FIRST_OTHER + words * WORD_BITS > adverts[_MEMORY_CAPACITY]:
        return _FULL
    key, count = number << 2 | question, 0
    for word in range(words):
        item = word_at(members, word) & word_at(relation, word)
        while item:
            other = word * WORD_BITS + lowest(item)
            item &= item - 1
            put_long(memory, entry + FIRST_OTHER + count, other)
            count += 1
            key = (key ^ other) * _MULTIPLIER
            key ^= key >> 29 & 0x7FFFFFFFF
    slots = adverts[_SLOTS] - 1
    slot = key & slots
    while True:
        known = long_at(adverts[_ANSWERS], slot) - 1
        if known < 0:
            break
        if (
            long_at(memory, known + HASH) == key
            and long_at(memory, known + ABOUT) == number
            and long_at(memory, known + ASKED) == question
            and long_at(memory, known + OTHERS) == count
        ):
            same = True
            for index in range(count):
                other = long_at(memory, known + FIRST_OTHER + index)
                if other != long_at(memory, entry + FIRST_OTHER + index):
                    same = False
                    break
            if same:
                return known + FIRST_OTHER + count
        slot = (slot + 1) & slots
    put_long(memory, entry + HASH, key)
    put_long(memory, entry + ABOUT, number)
    put_long(memory, entry + ASKED, question)
    put_long(memory, entry + OTHERS, count)
    adverts[_SLOT] = slot
    return _QUESTION


@callee
def _covered(adverts: Array, members: Address, number: I64, left: I64, words: I64, jointly: I64) -> I64:
    """Whether members cover a filter; see `FilterPool.covers`.

    Returns:
        Twice the pairs that may still be considered, and 1 if they do; or the negative of an `Exit`.
    """
    left = max(0, left - adverts[_QUESTION_PAIRS])
    if left == 0:
        return 0
    place = int_at(adverts[_PLACES], number)
    if place < 0:
        adverts[_FILTER] = number
        return _RELATE
    stride = adverts[_WIDTH] * WORD_BYTES
    relations = adverts[_RELATIONS] + place * KINDS * stride
    possible = relations + _POSSIBLE * stride
    covering, excepting = relations + _COVERS * stride, relations + _EXCEPT * stride
    lows, highs = relations + _LOW * stride, relations + _HIGH * stride
    expensive = relations + _COSTLY * stride
    covers = low = high = count = costly = exceptions = 0
    for word in range(words):
        near = word_at(members, word) & word_at(possible, word)
        # Few words have any: the other rows are not read otherwise.
        if near:
            count += ones(near)
            costly += ones(near & word_at(expensive, word))
            covers |= near & word_at(covering, word)
            low |= near & word_at(lows, word)
            high |= near & word_at(highs, word)
            exceptions += ones(near & word_at(excepting, word))
    if _lacks(adverts, members, number, relations, words):
        return _RELATE
    if count == 0:
        return left << 1
    kind = byte_at(adverts[_BOXES], number)
    box = kind & 1
    left = max(0, left - (count + costly * (_PATTERN_PAIRS - 1)))
    if left == 0:
        return 0
    if covers:
        return left << 1 | 1
    if count == 1 or (box and not (low and high)):
        return left << 1
    if jointly:
        left = max(0, left - BOXES_MAX * min(count, 2 * CANDIDATES_MAX))
        jointly = left > 0
    if not jointly and exceptions < 2:
        return left << 1
    for each in range(kind >> 1):
        if not meets(members, relations + (_WITNESSES + each) * stride, words):
            return left << 1
    answer = _answer(adverts, members, possible, number, _JOINTLY if jointly else _SEVERAL, words)
    if answer < 0:
        if answer == _QUESTION:
            others = adverts[_MEMORY] + (adverts[_MEMORISED] + FIRST_OTHER) * WORD_BYTES
            if find_witness(adverts, number, others, count, words):
                return left << 1
        return answer
    return left << 1 | long_at(adverts[_MEMORY], answer)


@callee
def _without_covered(
    adverts: Array, members: Address, number: I64, relations: Address, left: I64, words: I64
) -> I64:
    """Removes the members that a filter, which is then added, covers; see `FilterPool._with`.

    Returns:
        The pairs that may still be considered, or the negative of an `Exit`.
    """
    stride = adverts[_WIDTH] * WORD_BYTES
    possible, covered = relations + _POSSIBLY_COVERED * stride, relations + _IS_COVERED * stride
    excepting, expensive = relations + _EXCEPT_ONE * stride, relations + _COSTLY * stride
    near = costly = candidates = 0
    for word in range(words):
        item = word_at(members, word) & word_at(possible, word)
        if item:
            near += ones(item)
            costly += ones(item & word_at(expensive, word))
            candidates += ones(item & word_at(excepting, word))
    if near == 0:
        return left
    left = max(0, left - (near + costly * (_PATTERN_PAIRS - 1)))
    if left == 0:
        return 0
    for word in range(words):
        item = word_at(members, word)
        nearby = item & word_at(possible, word)
        if nearby:
            put_word(members, word, item & ~(nearby & word_at(covered, word)))
    if candidates == 0:
        return left
    left = max(0, left - max(_SEARCH_PAIRS, adverts[_QUESTION_PAIRS]) * candidates)
    if left == 0:
        return 0
    include(members, number)
    found, count, first = adverts[_SCRATCH] + FOUND_ROW * stride, 0, 0
    for word in range(words):
        put_word(found, word, 0)
    for word in range(words):
        waiting = word_at(members, word) & word_at(possible, word) & word_at(excepting, word)
        while waiting:
            candidate = word * WORD_BITS + lowest(waiting)
            waiting &= waiting - 1
            exclude(members, candidate)
            answer = _covered(adverts, members, candidate, left, words, 0)
            include(members, candidate)
            if answer < 0:
                return answer
            if answer & 1:
                first = candidate
                count += 1
                include(found, candidate)
            left = answer >> 1
    # The pool asks once more, in canonical order, and counts it: one may be covered with the help of another.
    order = 0
    if count > 1:
        order = _answer(adverts, found, found, first, _ORDER, words)
        if order < 0:
            return order
    for each in range(count):
        candidate = first if count == 1 else long_at(adverts[_MEMORY], order + each)
        exclude(members, candidate)
        answer = _covered(adverts, members, candidate, left, words, 0)
        if answer < 0:
            return answer
        if not answer & 1:
            include(members, candidate)
        left = answer >> 1
    return left
