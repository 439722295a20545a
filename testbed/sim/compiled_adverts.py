"""Effect of an RA on a router, in compiled code: p_i, F of its class, and whether it goes on.

It computes what `FilterPool.add` (`testbed.sim.compiled_unions`) and
`router.protocol.schemes.subtree_filter.admit` (`testbed.sim.compiled_levels`) compute. Nothing is written
before the answer is known. Most filters that an RA brings are related to none of a table. They are added to
p_i without a copy.
"""

from __future__ import annotations

from router.native.compiler import I64, Address, Array, Compiler, Flag
from router.native.memory import long_at, put_byte, put_int, put_real, real_at
from router.native.words import WORD_BYTES, lowest, ones, put_word, word_at
from router.predicates.covering.pool import QUESTION_PAIRS, SEARCH_PAIRS, SEARCHED
from testbed.sim.compiled_levels import widen
from testbed.sim.compiled_sets import differs, exclude, has, include
from testbed.sim.compiled_unions import related, unite
from testbed.sim.layout import (
    FILTER_COUNT,
    FILTERS,
    FILTERS_MAX,
    PREDICATE_ROW,
    RELATED,
    ROW,
    SAMPLE_BYTES,
    UNKNOWN,
    Advert,
    Real,
    Verdict,
)

callee = Compiler.callee

_PREDICATES = int(Advert.PREDICATES)
_WIDTH = int(Advert.WIDTH)
_SCRATCH = int(Advert.SCRATCH)
_NUMBERS = int(Advert.NUMBERS)
_BUCKETS = int(Advert.BUCKETS)
_CHANGED = int(Advert.CHANGED)
_SAMPLES = int(Advert.SAMPLES)
_USED = int(Advert.USED)
_TURN_PAIRS = int(Advert.TURN_PAIRS)
_STRICT = int(Advert.STRICT)
_REALS = int(Advert.REALS)
_START_NS = int(Advert.START_NS)
_EXPERIMENT_S = int(Real.EXPERIMENT_S)
_RATE = int(Real.RATE)
_BURST = int(Real.BURST)
_REFILL = int(Real.REFILL)
_COVERED = int(Verdict.COVERED)
_PASSES = int(Verdict.PASSES)
_QUESTION_PAIRS = int(Advert.QUESTION_PAIRS)
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
    if added < 0 and added != RELATED:
        return added
    simple = added >= 0
    if simple:
        left = adverts[_TURN_PAIRS] - adverts[_QUESTION_PAIRS] * ones(added)
    else:
        for word in range(words):
            put_word(scratch, word, word_at(place, word))
        left = unite(adverts, PREDICATE_ROW, messages, message, adverts[_TURN_PAIRS], words)
        if left < 0:
            return left
    if adverts[_STRICT]:
        if simple:
            if added:
                nodes[node, FILTERS] += ones(added)
                _changed(adverts, row)
                return _PASSES
        elif differs(scratch, place, words):
            _put_predicate(adverts, nodes, node, row, place, words)
            return _PASSES
        return _COVERED
    found = widen(adverts, nodes, node, own, messages, message, hops, left, words)
    if found < 0:
        if simple:
            _remove_added(adverts, place, message, added)
        return found
    if simple:
        if added:
            nodes[node, FILTERS] += ones(added)
            _changed(adverts, row)
    elif differs(scratch, place, words):
        _put_predicate(adverts, nodes, node, row, place, words)
    return found


@callee
def _add_unrelated(adverts: Array, members: Address, messages: Array, message: I64, words: I64) -> I64:
    """Adds the filters of an RA to a row, if no filter of the row is related to them.

    Returns:
        The filters that were added, as bits by their place in the RA; `RELATED` or the negative of an
        `Exit`: the row is unchanged.
    """
    numbers, added = adverts[_NUMBERS] + message * FILTERS_MAX * WORD_BYTES, 0
    if adverts[_TURN_PAIRS] <= adverts[_QUESTION_PAIRS] * messages[message, FILTER_COUNT]:
        return RELATED
    for index in range(messages[message, FILTER_COUNT]):
        number = long_at(numbers, index)
        if has(members, number):
            continue
        found = related(adverts, number, members, words)
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
def _put_predicate(adverts: Array, nodes: Array, node: I64, row: I64, place: Address, words: I64) -> None:
    """Writes p_i, from the scratch memory."""
    scratch, more = adverts[_SCRATCH], 0
    for word in range(words):
        item = word_at(scratch, word)
        more += ones(item) - ones(word_at(place, word))
        put_word(place, word, item)
    nodes[node, FILTERS] += more
    _changed(adverts, row)


@callee
def _changed(adverts: Array, row: I64) -> None:
    put_byte(adverts[_CHANGED], row, 1)
    put_int(adverts[_SAMPLES] + row * SAMPLE_BYTES, 0, UNKNOWN)
