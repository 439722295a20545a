"""Effect of an RA on a router, in compiled code: p_i, F of its class, and whether it goes on.

It computes what `FilterPool.add` and `router.protocol.schemes.subtree_filter.admit` compute, and counts the
same pairs of filters (`FilterPool.bounded`). Where several filters may cover one together, or filters may be
merged, it asks the pool, and remembers the answers. Of a filter that some filters do not cover, it remembers
a message that they leave out as well (`testbed.sim.compiled_witnesses`): other filters that leave it out do
not cover it either. Nothing is written before the answer is known.

Most filters that an RA brings are related to none of a table. They are added to p_i, and to a short F,
without copies of either.
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
from router.native.words import WORD_BITS, WORD_BYTES, lowest, ones, put_word, word_at
from router.predicates.covering.boxes import BOXES_MAX, CANDIDATES_MAX
from router.predicates.covering.pool import QUESTION_PAIRS, SEARCH_PAIRS, SEARCHED
from testbed.sim.compiled_sets import differs, exclude, has, include, meets, size
from testbed.sim.compiled_witnesses import find_witness
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
    KINDS,
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
_ORDER = int(Question.ORDER)
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
_EXCEPT_ONE, _COSTLY, _WITNESSES = int(Relation.COVERED_EXCEPT_ONE), int(Relation.COSTLY), len(Relation)
_NEAR = int(Relation.NEAR)
_PLACES, _QUESTION_PAIRS = int(Advert.PLACES), int(Advert.QUESTION_PAIRS)

#: As in `router.predicates.covering.pool`.
_SEARCH_PAIRS, _PATTERN_PAIRS = 16, 8
_INT_BYTES = 4
_LEVEL_BYTES = LEVEL_WIDTH * _INT_BYTES
#: Rows of the scratch memory.
_PREDICATE, _KNOWN, _LOWER, _WAITING, _FOUND = 0, 1, 2, LEVELS_MAX + 2, LEVELS_MAX + 3
#: F of so many filters is compared filter by filter, and F of more as a row.
_SHORT = 1024
#: A filter of an RA is related to those of a table, or the bound on pairs is near.
_RELATED = -1000
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
    # See `router.predicates.covering.pool.question_pairs`.
    adverts[_QUESTION_PAIRS] = QUESTION_PAIRS + SEARCH_PAIRS * nodes[node, FILTERS] // SEARCHED
    row = nodes[node, ROW] + interface
    place = adverts[_PREDICATES] + row * width * WORD_BYTES
    # Without a copy, if no filter of p_i is related to one of the RA.
    added = _add_unrelated(adverts, place, messages, message, words)
    if added < 0 and added != _RELATED:
        return added
    simple = added >= 0
    if simple:
        left = adverts[_TURN_PAIRS] - adverts[_QUESTION_PAIRS] * ones(added)
    else:
        for word in range(words):
            put_word(scratch, word, word_at(place, word))
        left = _unite(adverts, _PREDICATE, messages, message, adverts[_TURN_PAIRS], words)
        if left < 0:
            return left
    if adverts[_STRICT]:
        if simple:
            if added:
                nodes[node, FILTERS] += ones(added)
                put_byte(adverts[_CHANGED], row, 1)
                return _PASSES
        elif differs(scratch, place, words):
            _put_predicate(adverts, nodes, node, row, place, words)
            return _PASSES
        return _COVERED
    found = _widen(adverts, nodes, node, own, messages, message, hops, left, words)
    if found < 0:
        if simple:
            _remove_added(adverts, place, message, added)
        return found
    if simple:
        if added:
            nodes[node, FILTERS] += ones(added)
            put_byte(adverts[_CHANGED], row, 1)
    elif differs(scratch, place, words):
        _put_predicate(adverts, nodes, node, row, place, words)
    return found


@callee
def _widen(
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
        if added < 0 and added != _RELATED:
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
    _expand(adverts, nearest, _KNOWN, words)
    left = _unite(adverts, _KNOWN, messages, message, left, words)
    if left < 0:
        return left
    known = scratch + _KNOWN * width * WORD_BYTES
    grew = _any(known, words) if nearest < 0 else _grew(adverts, nearest, known, words)
    if not grew:
        return _COVERED
    # Lower levels that are not equal to the nearest are united by themselves, before anything is written.
    lower = _LOWER
    level = int_at(head, 0)
    while level >= 0:
        entry = adverts[_LEVELS] + level * _LEVEL_BYTES
        if int_at(entry, HOPS) <= hops and not _equal(adverts, level, nearest):
            _expand(adverts, level, lower, words)
            left = _unite(adverts, lower, messages, message, left, words)
            if left < 0:
                return left
            lower += 1
        level = int_at(entry, NEXT)
    # The nearest is compared with others, so it is written last.
    lower, same = _LOWER, -1
    level = int_at(head, 0)
    while level >= 0:
        entry = adverts[_LEVELS] + level * _LEVEL_BYTES
        if int_at(entry, HOPS) <= hops:
            if level == nearest:
                same = level
            elif _equal(adverts, level, nearest):
                _compress(adverts, level, _KNOWN, words)
            else:
                _compress(adverts, level, lower, words)
                lower += 1
        level = int_at(entry, NEXT)
    if same >= 0:
        _compress(adverts, same, _KNOWN, words)
    else:
        _compress(adverts, _new_level(adverts, head, last, hops), _KNOWN, words)
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


# Filters that are related to none of a table.


@callee
def _related(adverts: Array, number: I64, members: Address, words: I64) -> I64:
    """Whether filters of a row can cover a filter, or be affected by it.

    Returns:
        0: none; `_RELATED`; or the negative of an `Exit`.
    """
    place = int_at(adverts[_PLACES], number)
    if place < 0:
        adverts[_FILTER] = number
        return _RELATE
    stride = adverts[_WIDTH] * WORD_BYTES
    relations = adverts[_RELATIONS] + place * KINDS * stride
    searched, near = relations + _SEARCHED * stride, relations + _NEAR * stride
    missing = found = 0
    for word in range(words):
        found |= word_at(members, word) & word_at(near, word)
    if found == 0:
        return 0
    for word in range(words):
        missing |= word_at(members, word) & ~word_at(searched, word)
    if missing:
        adverts[_FILTER] = number
        return _RELATE
    return _RELATED


@callee
def _add_unrelated(adverts: Array, members: Address, messages: Array, message: I64, words: I64) -> I64:
    """Adds the filters of an RA to a row, if no filter of the row is related to them.

    Returns:
        The filters that were added, as bits by their place in the RA; `_RELATED` or the negative of an
        `Exit`: the row is unchanged.
    """
    numbers, added = adverts[_NUMBERS] + message * FILTERS_MAX * WORD_BYTES, 0
    if adverts[_TURN_PAIRS] <= adverts[_QUESTION_PAIRS] * messages[message, FILTER_COUNT]:
        return _RELATED
    for index in range(messages[message, FILTER_COUNT]):
        number = long_at(numbers, index)
        if has(members, number):
            continue
        found = _related(adverts, number, members, words)
        if found:
            _remove_added(adverts, members, message, added)
            return found
        include(members, number)
        added |= 1 << index
    return added


@callee
def _remove_added(adverts: Array, members: Address, message: I64, added: I64) -> None:
    """Removes filters that `_add_unrelated` has added."""
    numbers = adverts[_NUMBERS] + message * FILTERS_MAX * WORD_BYTES
    while added:
        exclude(members, long_at(numbers, lowest(added)))
        added &= added - 1


@callee
def _unrelated(adverts: Array, level: I64, messages: Array, message: I64, left: I64) -> I64:
    """The filters of an RA that a level (-1: none) lacks, if no filter of the level is related to them.

    Returns:
        Bits by their place in the RA; `_RELATED`; or the negative of an `Exit`.
    """
    numbers, found = adverts[_NUMBERS] + message * FILTERS_MAX * WORD_BYTES, 0
    if left <= adverts[_QUESTION_PAIRS] * messages[message, FILTER_COUNT]:
        return _RELATED
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
    return _RELATED


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


# Sets of filters.


@callee
def _unite(adverts: Array, row: I64, messages: Array, message: I64, left: I64, words: I64) -> I64:
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
        found = _related(adverts, number, members, words)
        if found == 0:
            include(members, number)
            continue
        if found != _RELATED:
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
    waiting, count = adverts[_SCRATCH] + _WAITING * stride, 1
    put_long(waiting, 0, number)
    while count:
        count -= 1
        new = long_at(waiting, count)
        place = int_at(adverts[_PLACES], new)
        if place < 0:
            adverts[_FILTER] = new
            return _RELATE
        relations = adverts[_RELATIONS] + place * KINDS * stride
        searched, affecting = relations + _SEARCHED * stride, relations + _AFFECTED * stride
        merging = relations + _MERGEABLE * stride
        missing = affected = mergeable = 0
        for word in range(words):
            item = word_at(members, word)
            missing |= item & ~word_at(searched, word)
            affected |= item & word_at(affecting, word)
            mergeable |= item & word_at(merging, word)
        if missing:
            adverts[_FILTER] = new
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
    searched, possible = relations + _SEARCHED * stride, relations + _POSSIBLE * stride
    covering, excepting = relations + _COVERS * stride, relations + _EXCEPT * stride
    lows, highs = relations + _LOW * stride, relations + _HIGH * stride
    expensive = relations + _COSTLY * stride
    missing = covers = low = high = count = costly = exceptions = 0
    for word in range(words):
        item = word_at(members, word)
        missing |= item & ~word_at(searched, word)
        near = item & word_at(possible, word)
        count += ones(near)
        costly += ones(near & word_at(expensive, word))
        covers |= near & word_at(covering, word)
        low |= near & word_at(lows, word)
        high |= near & word_at(highs, word)
        exceptions += ones(near & word_at(excepting, word))
    if missing:
        adverts[_FILTER] = number
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
        put_word(members, word, item & ~(item & word_at(possible, word) & word_at(covered, word)))
    if candidates == 0:
        return left
    left = max(0, left - max(_SEARCH_PAIRS, adverts[_QUESTION_PAIRS]) * candidates)
    if left == 0:
        return 0
    include(members, number)
    found, count, first = adverts[_SCRATCH] + _FOUND * stride, 0, 0
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


@callee
def _any(members: Address, words: I64) -> Flag:
    found = 0
    for word in range(words):
        found |= word_at(members, word)
    return found != 0


@callee
def _put_predicate(adverts: Array, nodes: Array, node: I64, row: I64, place: Address, words: I64) -> None:
    """Writes p_i, from the scratch memory."""
    scratch, more = adverts[_SCRATCH], 0
    for word in range(words):
        item = word_at(scratch, word)
        more += ones(item) - ones(word_at(place, word))
        put_word(place, word, item)
    nodes[node, FILTERS] += more
    put_byte(adverts[_CHANGED], row, 1)


# F.


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
