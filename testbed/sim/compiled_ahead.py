"""Memory that later arrivals of the queue read, asked for before they are handled.

The arrays of a large network do not fit into the processor's caches. Each stage reads what an earlier stage
has asked for.
"""

from __future__ import annotations

from router.native.compiler import I64, Address, Array, Compiler
from router.native.memory import byte_at, int_at, long_at, prefetch, short_at
from router.native.words import WORD_BYTES
from testbed.sim.compiled_outputs import uint_at
from testbed.sim.layout import (
    ARRIVAL_WIDTH,
    CHILDREN,
    CLASS_OF,
    DEPTHS,
    FIRST,
    HEAD,
    INTERFACE,
    ISSUER,
    LEVEL_WIDTH,
    MESSAGE,
    MESSAGE_WIDTH,
    NODE_WIDTH,
    OFFSET,
    PARENTS,
    RECEIVER,
    ROW,
    SOURCES,
    WEIGHT,
    WIRE,
    WIRE_WIDTH,
    Advert,
)

callee = Compiler.callee

#: How many arrivals ahead memory is asked for.
CLASS_AHEAD, _PLACE_AHEAD, _LEVEL_AHEAD, _FILTERS_AHEAD = 24, 16, 8, 4
_LINES_AHEAD, _LINE_BYTES = 4, 64
_INT_BYTES = 4
_ARRIVAL_BYTES, _WIRE_BYTES, _NODE_BYTES, _MESSAGE_BYTES = (
    WORD_BYTES * width for width in (ARRIVAL_WIDTH, WIRE_WIDTH, NODE_WIDTH, MESSAGE_WIDTH)
)
_HEADS, _LEVELS, _STORE = int(Advert.HEADS), int(Advert.LEVELS), int(Advert.STORE)
_PREDICATES, _WIDTH = int(Advert.PREDICATES), int(Advert.WIDTH)


@callee
def ask_ahead(
    queue: Address,
    front: I64,
    last: I64,
    wires: Address,
    nodes: Address,
    stale: Address,
    messages: Address,
    adverts: Array,
) -> None:
    """Asks for the class of an arrival, then for its items and p_i, then for F and its filters.

    Arrays are passed by address: each one would be passed as seven numbers.

    Args:
        queue, wires, nodes, stale, messages: addresses of the arrays of `compiled_bulk.propagate`; more than
            `CLASS_AHEAD` arrivals are in the queue.
        front: the place of the first arrival.
        last: the last place of the queue.
    """
    arrival = queue + ((front + CLASS_AHEAD) & last) * _ARRIVAL_BYTES
    node = nodes + _NODE_BYTES * long_at(wires + _WIRE_BYTES * long_at(arrival, WIRE), RECEIVER)
    issuer = long_at(messages + _MESSAGE_BYTES * long_at(arrival, MESSAGE), ISSUER)
    if issuer < long_at(node, SOURCES):
        prefetch(long_at(node, CLASS_OF) + 2 * issuer)
    arrival = queue + ((front + _PLACE_AHEAD) & last) * _ARRIVAL_BYTES
    receiver = long_at(wires + _WIRE_BYTES * long_at(arrival, WIRE), RECEIVER)
    node, message = nodes + _NODE_BYTES * receiver, messages + _MESSAGE_BYTES * long_at(arrival, MESSAGE)
    own = -1 if byte_at(stale, receiver) else _class_of(node, message)
    if own >= 0:
        prefetch(long_at(node, PARENTS) + 2 * own)
        prefetch(long_at(node, FIRST) + 4 * own)
        if long_at(message, WEIGHT):
            prefetch(long_at(node, DEPTHS) + 2 * own)
            prefetch(adverts[_HEADS] + _INT_BYTES * (long_at(node, HEAD) + own))
            row = long_at(node, ROW) + long_at(wires + _WIRE_BYTES * long_at(arrival, WIRE), INTERFACE)
            _ask_row(adverts[_PREDICATES] + row * adverts[_WIDTH] * WORD_BYTES)
    arrival = queue + ((front + _LEVEL_AHEAD) & last) * _ARRIVAL_BYTES
    receiver = long_at(wires + _WIRE_BYTES * long_at(arrival, WIRE), RECEIVER)
    node, message = nodes + _NODE_BYTES * receiver, messages + _MESSAGE_BYTES * long_at(arrival, MESSAGE)
    own = -1 if byte_at(stale, receiver) else _class_of(node, message)
    if own >= 0:
        prefetch(long_at(node, CHILDREN) + 2 * uint_at(long_at(node, FIRST), own))
        if long_at(message, WEIGHT):
            level = int_at(adverts[_HEADS], long_at(node, HEAD) + own)
            prefetch(adverts[_LEVELS] + _INT_BYTES * LEVEL_WIDTH * max(level, 0))
    arrival = queue + ((front + _FILTERS_AHEAD) & last) * _ARRIVAL_BYTES
    receiver = long_at(wires + _WIRE_BYTES * long_at(arrival, WIRE), RECEIVER)
    node, message = nodes + _NODE_BYTES * receiver, messages + _MESSAGE_BYTES * long_at(arrival, MESSAGE)
    if long_at(message, WEIGHT) and not byte_at(stale, receiver):
        own = _class_of(node, message)
        if own >= 0:
            level = int_at(adverts[_HEADS], long_at(node, HEAD) + own)
            if level >= 0:
                offset = int_at(adverts[_LEVELS], LEVEL_WIDTH * level + OFFSET)
                prefetch(adverts[_STORE] + _INT_BYTES * offset)


@callee
def _ask_row(row: Address) -> None:
    """Asks for the beginning of a row of filters: the processor sees by itself that the rest follows."""
    for line in range(_LINES_AHEAD):
        prefetch(row + line * _LINE_BYTES)


@callee
def _class_of(node: Address, message: Address) -> I64:
    """The class of a message's issuer at a router that is not stale, from 0; -1: it has none."""
    issuer = long_at(message, ISSUER)
    if issuer >= long_at(node, SOURCES):
        return -1
    return short_at(long_at(node, CLASS_OF), issuer) - 1
