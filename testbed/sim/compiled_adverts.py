"""Effect of an RA on a router, in compiled code: p_i, F of its class, and whether it goes on.

It computes what `FilterPool.add` and `router.protocol.schemes.subtree_filter.admit` compute, and counts the
same pairs of filters (`FilterPool.bounded`). Where several filters may cover one together, or filters may be
merged, it asks the pool, and remembers the answers; where the bound on pairs is reached, it asks the pool for
the whole. Nothing is written before the answer is known.
"""

from __future__ import annotations

from router.native.compiler import I64, Address, Array, Compiler, Flag
from router.native.memory import (
    byte_at,
    int_at,
    long_at,
    put_byte,
    put_int,
    put_long,
    put_real,
    real_at,
    short_at,
)
from router.predicates.covering.boxes import BOXES_MAX, CANDIDATES_MAX
from testbed.sim.layout import (
    ABOUT,
    ASKED,
    COUNT,
    DEPTHS,
    FILTER_COUNT,
    FILTERS,
    FILTERS_MAX,
    FIRST_OTHER,
    HASH,
    HEAD,
    HOPS,
    LEVEL_WIDTH,
    LEVELS_MAX,
    NEXT,
    OFFSET,
    OTHERS,
    ROOM,
    ROW,
    Advert,
    Exit,
    Question,
    Real,
    Relation,
    Verdict,
)

callee = Compiler.callee

_PREDICATES, _WIDTH, _RELATIONS, _BOXES = (
    int(Advert.PREDICATES),
    int(Advert.WIDTH),
    int(Advert.RELATIONS),
    int(Advert.BOXES),
)
_SCRATCH, _NUMBERS, _LEVELS, _LEVEL_COUNT = (
    int(Advert.SCRATCH),
    int(Advert.NUMBERS),
    int(Advert.LEVELS),
    int(Advert.LEVEL_COUNT),
)
_STORE, _STORED, _HEADS, _BUCKETS = (
    int(Advert.STORE),
    int(Advert.STORED),
    int(Advert.HEADS),
    int(Advert.BUCKETS),
)
_CHANGED, _USED, _TURN_PAIRS, _STRICT = (
    int(Advert.CHANGED),
    int(Advert.USED),
    int(Advert.TURN_PAIRS),
    int(Advert.STRICT),
)
_FILTER, _REALS, _START_NS = int(Advert.FILTER), int(Advert.REALS), int(Advert.START_NS)
_EXPERIMENT_S, _RATE = int(Real.EXPERIMENT_S), int(Real.RATE)
_BURST, _REFILL = int(Real.BURST), int(Real.REFILL)
_ASK, _RELATE, _LEND = -int(Exit.ASK), -int(Exit.RELATE), -int(Exit.LEND)
_QUESTION, _FULL = -int(Exit.QUESTION), -int(Exit.FULL)
_SEVERAL, _JOINTLY, _MERGED = int(Question.COVERED), int(Question.COVERED_JOINTLY), int(Question.MERGED)
_ANSWERS, _SLOTS, _SLOT = int(Advert.ANSWERS), int(Advert.SLOTS), int(Advert.SLOT)
_MEMORY, _MEMORISED, _MEMORY_CAPACITY = (
    int(Advert.MEMORY),
    int(Advert.MEMORISED),
    int(Advert.MEMORY_CAPACITY),
)
_COVERED, _PASSES = int(Verdict.COVERED), int(Verdict.PASSES)
_SEARCHED, _POSSIBLE, _COVERS = int(Relation.SEARCHED), int(Relation.POSSIBLE_COVERS), int(Relation.COVERS)
_LOW, _HIGH, _EXCEPT = int(Relation.LOW_CORNER), int(Relation.HIGH_CORNER), int(Relation.COVERS_EXCEPT)
_AFFECTED, _MERGEABLE = int(Relation.AFFECTED), int(Relation.MERGEABLE)
_POSSIBLY_COVERED, _IS_COVERED = int(Relation.POSSIBLY_COVERED), int(Relation.COVERED)
_EXCEPT_ONE, _KINDS = int(Relation.COVERED_EXCEPT_ONE), len(Relation)

#: As in `router.predicates.covering.pool`.
_QUESTION_PAIRS, _SEARCH_PAIRS, _PATTERN_PAIRS = 4, 16, 8
_WORD_BYTES, _INT_BYTES = 8, 4
_LEVEL_BYTES = LEVEL_WIDTH * _WORD_BYTES
#: Rows of the scratch memory.
_PREDICATE, _KNOWN, _LOWER, _WAITING = 0, 1, 2, LEVELS_MAX + 2
_WORD_BITS = 64
_MULTIPLIER = 0x2545F4914F6CDD1D
_NS = 1_000_000_000


@callee
def may_send(adverts: Array, wire: I64, at_ns: I64, weight: I64) -> Flag:
    """Whether a neighbour may send this weight at this time (`Allowance` of `router.predicates`)."""
    reals = adverts[_REALS]
    now = real_at(reals, _EXPERIMENT_S) + (at_ns - adverts[_START_NS]) * real_at(reals, _RATE) / _NS
    buckets = adverts[_BUCKETS]
    left, at = real_at(buckets, 2 * wire), real_at(buckets, 2 * wire + 1)
    if now > at:
        left = min(left + (now - at) * real_at(reals, _REFILL), real_at(reals, _BURST))
        put_real(buckets, 2 * wire, left)
        put_real(buckets, 2 * wire + 1, now)
        put_byte(adverts[_USED], wire, 1)
    return weight <= left


@callee
def use(adverts: Array, wire: I64, weight: I64) -> None:
    """Takes this weight from what a neighbour may send."""
    buckets = adverts[_BUCKETS]
    put_real(buckets, 2 * wire, max(0.0, real_at(buckets, 2 * wire) - weight))
    put_byte(adverts[_USED], wire, 1)


@callee
def admit(
    adverts: Array,
    nodes: Array,
    node: I64,
    own: I64,
    interface: I64,
    messages: Array,
    message: I64,
    hops: I64,
    words: I64,
) -> I64:
    """Widens p_i of an interface, and F of class `own` (from 0), by an RA.

    Args:
        hops: hops that the RA has left when it goes on.

    Returns:
        A `Verdict`, or the negative of an `Exit`: nothing has changed.
    """
    width, scratch = adverts[_WIDTH], adverts[_SCRATCH]
    row = nodes[node, ROW] + interface
    place = adverts[_PREDICATES] + row * width * _WORD_BYTES
    before = 0
    for word in range(words):
        item = long_at(place, word)
        put_long(scratch, word, item)
        before += _ones(item)
    left = _unite(adverts, _PREDICATE, messages, message, adverts[_TURN_PAIRS], words)
    if left < 0:
        return left
    if adverts[_STRICT]:
        widened = _differs(scratch, place, words)
        if widened:
            _put_predicate(adverts, nodes, node, row, place, before, words)
            return _PASSES
        return _COVERED
    hops = min(hops, short_at(nodes[node, DEPTHS], own))
    head = adverts[_HEADS] + (nodes[node, HEAD] + own) * _INT_BYTES
    # The nearest level of as many hops or more, the last level, and how many there are.
    nearest, last, nearest_hops, count = -1, -1, 0, 0
    level = int_at(head, 0)
    if level < -1:
        return _LEND
    while level >= 0:
        entry = adverts[_LEVELS] + level * _LEVEL_BYTES
        own_hops = long_at(entry, HOPS)
        if own_hops >= hops and (nearest < 0 or own_hops < nearest_hops):
            nearest, nearest_hops = level, own_hops
        last = level
        count += 1
        level = long_at(entry, NEXT)
    if count >= LEVELS_MAX:
        return _ASK
    _expand(adverts, nearest, _KNOWN, words)
    left = _unite(adverts, _KNOWN, messages, message, left, words)
    if left < 0:
        return left
    known = scratch + _KNOWN * width * _WORD_BYTES
    grew = _any(known, words) if nearest < 0 else _grew(adverts, nearest, known, words)
    if grew:
        # Lower levels that are not equal to the nearest are united by themselves, before anything is written.
        lower = _LOWER
        level = int_at(head, 0)
        while level >= 0:
            entry = adverts[_LEVELS] + level * _LEVEL_BYTES
            if long_at(entry, HOPS) <= hops and not _equal(adverts, level, nearest):
                _expand(adverts, level, lower, words)
                left = _unite(adverts, lower, messages, message, left, words)
                if left < 0:
                    return left
                lower += 1
            level = long_at(entry, NEXT)
    if _differs(scratch, place, words):
        _put_predicate(adverts, nodes, node, row, place, before, words)
    if not grew:
        return _COVERED
    # The nearest is compared with others, so it is written last.
    lower, same = _LOWER, -1
    level = int_at(head, 0)
    while level >= 0:
        entry = adverts[_LEVELS] + level * _LEVEL_BYTES
        if long_at(entry, HOPS) <= hops:
            if level == nearest:
                same = level
            elif _equal(adverts, level, nearest):
                _compress(adverts, level, _KNOWN, words)
            else:
                _compress(adverts, level, lower, words)
                lower += 1
        level = long_at(entry, NEXT)
    if same >= 0:
        _compress(adverts, same, _KNOWN, words)
    else:
        level = adverts[_LEVEL_COUNT]
        adverts[_LEVEL_COUNT] = level + 1
        entry = adverts[_LEVELS] + level * _LEVEL_BYTES
        put_long(entry, HOPS, hops)
        put_long(entry, NEXT, -1)
        put_long(entry, COUNT, 0)
        put_long(entry, ROOM, 0)
        put_long(entry, OFFSET, 0)
        if last < 0:
            put_int(head, 0, level)
        else:
            put_long(adverts[_LEVELS] + last * _LEVEL_BYTES, NEXT, level)
        _compress(adverts, level, _KNOWN, words)
    return _PASSES


# Sets of filters.


@callee
def _unite(adverts: Array, row: I64, messages: Array, message: I64, left: I64, words: I64) -> I64:
    """Adds the filters of an RA to a row of the scratch memory; see `FilterPool.add`.

    Returns:
        The pairs that may still be considered, or the negative of an `Exit`.
    """
    width = adverts[_WIDTH]
    members = adverts[_SCRATCH] + row * width * _WORD_BYTES
    numbers = adverts[_NUMBERS] + message * FILTERS_MAX * _WORD_BYTES
    for index in range(messages[message, FILTER_COUNT]):
        number = long_at(numbers, index)
        word, bit = number >> 6, 1 << (number & 63)
        if long_at(members, word) & bit:
            continue
        left -= _QUESTION_PAIRS
        if left <= 0:
            return _ASK
        relations = adverts[_RELATIONS] + number * _KINDS * width * _WORD_BYTES
        missing = possible = affected = 0
        for each in range(words):
            item = long_at(members, each)
            missing |= item & ~long_at(relations, _SEARCHED * width + each)
            possible |= item & long_at(relations, _POSSIBLE * width + each)
            affected |= item & long_at(relations, _AFFECTED * width + each)
        if missing:
            adverts[_FILTER] = number
            return _RELATE
        if possible:
            answer = _covered(adverts, members, number, left, words, 1)
            if answer < 0:
                return answer
            left = answer >> 1
            if answer & 1:
                continue
        elif affected:
            # `FilterPool.covers` counts the question.
            left -= _QUESTION_PAIRS
            if left <= 0:
                return _ASK
        if affected:
            left = _add(adverts, members, number, left, words)
            if left < 0:
                return left
        else:
            put_long(members, word, long_at(members, word) | bit)
    return left


@callee
def _add(adverts: Array, members: Address, number: I64, left: I64, words: I64) -> I64:
    """Adds a filter that the members do not cover; see `FilterPool._with`.

    Returns:
        The pairs that may still be considered, or the negative of an `Exit`.
    """
    width = adverts[_WIDTH]
    waiting, count = adverts[_SCRATCH] + _WAITING * width * _WORD_BYTES, 1
    put_long(waiting, 0, number)
    while count:
        count -= 1
        new = long_at(waiting, count)
        word, bit = new >> 6, 1 << (new & 63)
        relations = adverts[_RELATIONS] + new * _KINDS * width * _WORD_BYTES
        missing = affected = mergeable = 0
        for each in range(words):
            item = long_at(members, each)
            missing |= item & ~long_at(relations, _SEARCHED * width + each)
            affected |= item & long_at(relations, _AFFECTED * width + each)
            mergeable |= item & long_at(relations, _MERGEABLE * width + each)
        if missing:
            adverts[_FILTER] = new
            return _RELATE
        if not affected:
            put_long(members, word, long_at(members, word) | bit)
            continue
        if new != number:
            if long_at(members, word) & bit:
                continue
            answer = _covered(adverts, members, new, left, words, 0)
            if answer < 0:
                return answer
            left = answer >> 1
            if answer & 1:
                continue
        if mergeable:
            answer = _answer(
                adverts, members, relations + _MERGEABLE * width * _WORD_BYTES, new, _MERGED, words
            )
            if answer < 0:
                return answer
            left -= long_at(adverts[_MEMORY], answer)
            if left <= 0:
                return _ASK
            answer += 1
            removed = long_at(adverts[_MEMORY], answer)
            for each in range(removed):
                other = long_at(adverts[_MEMORY], answer + 1 + each)
                item = long_at(members, other >> 6)
                put_long(members, other >> 6, item & ~(1 << (other & 63)))
            if removed:
                answer += 1 + removed
                added = long_at(adverts[_MEMORY], answer)
                if count + added > width:
                    return _ASK
                for each in range(added):
                    put_long(waiting, count, long_at(adverts[_MEMORY], answer + 1 + each))
                    count += 1
                continue
        left = _without_covered(adverts, members, new, relations, left, words)
        if left < 0:
            return left
        put_long(members, word, long_at(members, word) | bit)
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
    if entry + FIRST_OTHER + words * _WORD_BITS > adverts[_MEMORY_CAPACITY]:
        return _FULL
    key, count = number << 2 | question, 0
    for word in range(words):
        item = long_at(members, word) & long_at(relation, word)
        while item:
            lowest = item & -item
            item ^= lowest
            other = word * _WORD_BITS + _ones(lowest - 1)
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
    width = adverts[_WIDTH]
    left -= _QUESTION_PAIRS
    if left <= 0:
        return _ASK
    relations = adverts[_RELATIONS] + number * _KINDS * width * _WORD_BYTES
    missing = covers = low = high = count = exceptions = 0
    for word in range(words):
        item = long_at(members, word)
        missing |= item & ~long_at(relations, _SEARCHED * width + word)
        near = item & long_at(relations, _POSSIBLE * width + word)
        if near:
            count += _ones(near)
            covers |= near & long_at(relations, _COVERS * width + word)
            low |= near & long_at(relations, _LOW * width + word)
            high |= near & long_at(relations, _HIGH * width + word)
            exceptions += _ones(near & long_at(relations, _EXCEPT * width + word))
    if missing:
        adverts[_FILTER] = number
        return _RELATE
    if count == 0:
        return left << 1
    box = byte_at(adverts[_BOXES], number)
    left -= count if box else count * _PATTERN_PAIRS
    if left <= 0:
        return _ASK
    if covers:
        return left << 1 | 1
    if count == 1 or (box and not (low and high)):
        return left << 1
    if jointly:
        left -= BOXES_MAX * min(count, 2 * CANDIDATES_MAX)
        if left <= 0:
            return _ASK
    elif exceptions < 2:
        return left << 1
    near = relations + _POSSIBLE * width * _WORD_BYTES
    answer = _answer(adverts, members, near, number, _JOINTLY if jointly else _SEVERAL, words)
    if answer < 0:
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
    width = adverts[_WIDTH]
    near = candidates = 0
    for word in range(words):
        item = long_at(members, word) & long_at(relations, _POSSIBLY_COVERED * width + word)
        if item:
            near += _ones(item)
            candidates += _ones(item & long_at(relations, _EXCEPT_ONE * width + word))
    if near == 0:
        return left
    left -= near if byte_at(adverts[_BOXES], number) else near * _PATTERN_PAIRS
    if left <= 0:
        return _ASK
    for word in range(words):
        item = long_at(members, word)
        near = item & long_at(relations, _POSSIBLY_COVERED * width + word)
        if near:
            put_long(members, word, item & ~(near & long_at(relations, _IS_COVERED * width + word)))
    if candidates == 0:
        return left
    left -= _SEARCH_PAIRS * candidates
    if left <= 0:
        return _ASK
    place, bit = number >> 6, 1 << (number & 63)
    put_long(members, place, long_at(members, place) | bit)
    found, found_word, found_bit = -1, 0, 0
    for word in range(words):
        waiting = (
            long_at(members, word)
            & long_at(relations, _POSSIBLY_COVERED * width + word)
            & long_at(relations, _EXCEPT_ONE * width + word)
        )
        while waiting:
            lowest = waiting & -waiting
            waiting ^= lowest
            candidate = word * 64 + _ones(lowest - 1)
            item = long_at(members, word)
            put_long(members, word, item & ~lowest)
            answer = _covered(adverts, members, candidate, left, words, 0)
            put_long(members, word, item)
            if answer < 0:
                return answer
            if answer & 1:
                if found >= 0:
                    return _ASK
                found, found_word, found_bit = candidate, word, lowest
            left = answer >> 1
    if found >= 0:
        item = long_at(members, found_word)
        put_long(members, found_word, item & ~found_bit)
        # The pool asks once more, and counts it.
        answer = _covered(adverts, members, found, left, words, 0)
        if answer < 0:
            return answer
        left = answer >> 1
    return left


@callee
def _ones(item: I64) -> I64:
    """The number of bits that are set."""
    item -= item >> 1 & 0x5555555555555555
    item = (item & 0x3333333333333333) + (item >> 2 & 0x3333333333333333)
    return ((item + (item >> 4)) & 0x0F0F0F0F0F0F0F0F) * 0x0101010101010101 >> 56


@callee
def _any(members: Address, words: I64) -> Flag:
    found = 0
    for word in range(words):
        found |= long_at(members, word)
    return found != 0


@callee
def _differs(members: Address, others: Address, words: I64) -> Flag:
    found = 0
    for word in range(words):
        found |= long_at(members, word) ^ long_at(others, word)
    return found != 0


@callee
def _put_predicate(
    adverts: Array, nodes: Array, node: I64, row: I64, place: Address, before: I64, words: I64
) -> None:
    """Writes p_i, from the scratch memory."""
    scratch, after = adverts[_SCRATCH], 0
    for word in range(words):
        item = long_at(scratch, word)
        put_long(place, word, item)
        after += _ones(item)
    nodes[node, FILTERS] += after - before
    put_byte(adverts[_CHANGED], row, 1)


# F.


@callee
def _expand(adverts: Array, level: I64, row: I64, words: I64) -> None:
    """Writes the filters of a level (-1: none) into a row of the scratch memory."""
    members = adverts[_SCRATCH] + row * adverts[_WIDTH] * _WORD_BYTES
    for word in range(words):
        put_long(members, word, 0)
    if level < 0:
        return
    entry = adverts[_LEVELS] + level * _LEVEL_BYTES
    store = adverts[_STORE] + long_at(entry, OFFSET) * _INT_BYTES
    for index in range(long_at(entry, COUNT)):
        number = int_at(store, index)
        put_long(members, number >> 6, long_at(members, number >> 6) | 1 << (number & 63))


@callee
def _grew(adverts: Array, level: I64, members: Address, words: I64) -> Flag:
    """Whether a set differs from the filters of a level."""
    entry = adverts[_LEVELS] + level * _LEVEL_BYTES
    store, count = adverts[_STORE] + long_at(entry, OFFSET) * _INT_BYTES, 0
    for word in range(words):
        count += _ones(long_at(members, word))
    if count != long_at(entry, COUNT):
        return True
    for index in range(count):
        number = int_at(store, index)
        if not long_at(members, number >> 6) >> (number & 63) & 1:
            return True
    return False


@callee
def _equal(adverts: Array, level: I64, other: I64) -> Flag:
    """Whether two levels have the same filters; `other` may be -1, an empty level."""
    if level == other:
        return True
    entry = adverts[_LEVELS] + level * _LEVEL_BYTES
    count = long_at(entry, COUNT)
    if other < 0:
        return count == 0
    second = adverts[_LEVELS] + other * _LEVEL_BYTES
    if count != long_at(second, COUNT):
        return False
    store = adverts[_STORE] + long_at(entry, OFFSET) * _INT_BYTES
    theirs = adverts[_STORE] + long_at(second, OFFSET) * _INT_BYTES
    for index in range(count):  # noqa: SIM110 - Numba compiles no generators
        if int_at(store, index) != int_at(theirs, index):
            return False
    return True


@callee
def _compress(adverts: Array, level: I64, row: I64, words: I64) -> None:
    """Writes a row of the scratch memory as the filters of a level; the caller has made room."""
    members = adverts[_SCRATCH] + row * adverts[_WIDTH] * _WORD_BYTES
    entry, count = adverts[_LEVELS] + level * _LEVEL_BYTES, 0
    for word in range(words):
        count += _ones(long_at(members, word))
    if count > long_at(entry, ROOM):
        room = count + count // 2 + 2
        put_long(entry, ROOM, room)
        put_long(entry, OFFSET, adverts[_STORED])
        adverts[_STORED] += room
    put_long(entry, COUNT, count)
    store, index = adverts[_STORE] + long_at(entry, OFFSET) * _INT_BYTES, 0
    for word in range(words):
        item = long_at(members, word)
        while item:
            lowest = item & -item
            item ^= lowest
            put_int(store, index, word * 64 + _ones(lowest - 1))
            index += 1
