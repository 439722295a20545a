"""The interfaces that a message or an RA goes to, in compiled code.

Most messages match a large p_i by one of a few filters, and a small p_i has few filters. A row of samples
has, for each row of filters, up to `SAMPLED` of them: all filters of a small p_i, and of a large one those
by which messages have matched it. Samples take one or two lines of the processor's cache where the row takes
many.
"""

from __future__ import annotations

from router.native.compiler import I64, Address, Array, Compiler, Flag
from router.native.memory import int_at, put_int, short_at
from router.native.words import WORD_BITS, WORD_BYTES, lowest, word_at
from testbed.sim.compiled_sets import has
from testbed.sim.layout import CHILDREN, FIRST, ROW, SAMPLE_BYTES, SAMPLED, UNKNOWN

callee = Compiler.callee

#: Interfaces of the first page of addresses: a frame to others goes by the core.
FIRST_PAGE = 32
_CHILD = 0x3FFF


@callee
def uint_at(address: Address, index: I64) -> I64:
    """Reads a number of 32 bits."""
    return short_at(address, 2 * index) | short_at(address, 2 * index + 1) << 16


@callee
def children(nodes: Array, node: I64, own: I64) -> I64:
    """The children of a class, as bits; -1: one is beyond the first page of addresses."""
    first, items = nodes[node, FIRST], nodes[node, CHILDREN]
    found = 0
    for index in range(uint_at(first, own), uint_at(first, own + 1)):
        port = short_at(items, index) & _CHILD
        if port > FIRST_PAGE:
            return -1
        found |= 1 << port
    return found


@callee
def outputs(
    nodes: Array, node: I64, own: I64, predicates: Address, samples: Address, matched: Address, width: I64
) -> I64:
    """The children of a class whose p_i a message matches, as bits; -1: as `children`.

    Args:
        predicates: rows of filters, of all p_i.
        samples: of each of these rows.
        matched: the row of the filters that the message matches.
        width: words of a row.
    """
    first, items, row = nodes[node, FIRST], nodes[node, CHILDREN], nodes[node, ROW]
    found = 0
    for index in range(uint_at(first, own), uint_at(first, own + 1)):
        port = short_at(items, index) & _CHILD
        if port > FIRST_PAGE:
            return -1
        if selects(predicates, samples, row + port, matched, width):
            found |= 1 << port
    return found


@callee
def selects(predicates: Address, samples: Address, row: I64, matched: Address, width: I64) -> Flag:
    """Whether a message matches a filter of a row; it draws the samples of the row if they are not known."""
    sample = samples + row * SAMPLE_BYTES
    members = predicates + row * width * WORD_BYTES
    count = int_at(sample, 0)
    if count == UNKNOWN:
        count = _draw(sample, members, width)
    for index in range(min(count, SAMPLED)):
        if has(matched, int_at(sample, 1 + index)):
            return True
    if count > SAMPLED:
        for word in range(width):
            both = word_at(members, word) & word_at(matched, word)
            if both:
                found = word * WORD_BITS + lowest(both)
                put_int(sample, 1 + found % SAMPLED, found)
                return True
    return False


@callee
def _draw(sample: Address, members: Address, width: I64) -> I64:
    """Writes how many filters a row has, `SAMPLED + 1` standing for more, and the first of them."""
    count = 0
    for word in range(width):
        item = word_at(members, word)
        while item and count <= SAMPLED:
            if count < SAMPLED:
                put_int(sample, 1 + count, word * WORD_BITS + lowest(item))
            item &= item - 1
            count += 1
        if count > SAMPLED:
            break
    put_int(sample, 0, count)
    return count
