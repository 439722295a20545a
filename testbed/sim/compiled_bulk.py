"""Propagation of messages and RAs in compiled code, in the order of the agenda, as the core would decide.

The arrays are laid out by `testbed.sim.bulk`, which imports this module; it imports Numba. An arrival that is
not ordinary, or at a router whose state has changed, is left to the caller.
"""

from __future__ import annotations

from router.native.compiler import I64, Address, Array, Compiler, Flag
from router.native.memory import put_byte, short_at
from testbed.sim.compiled_adverts import admit, may_send, use
from testbed.sim.layout import (
    ARRIVED,
    AT,
    CHILDREN,
    CLASS_OF,
    CUTS,
    DELAY,
    DELIVERED,
    FILTERS,
    FIRST,
    FORWARDED,
    HOP_LIMIT,
    HOST_IN,
    HOST_IN_BYTES,
    HOST_OUT,
    HOST_OUT_BYTES,
    INTERFACE,
    ISSUER,
    LENGTH,
    LEVELS_MAX,
    LINE,
    MESSAGE,
    MESSAGE_EPOCH,
    NUMBER,
    OPEN,
    PARENTS,
    PENDING,
    PORT_COUNT,
    PORTS,
    RA_COVERED,
    RA_IN,
    RA_OUT,
    RECEIVED,
    RECEIVER,
    ROW,
    SENT,
    SOURCES,
    UNWANTED,
    WEIGHT,
    WIRE,
    WIRE_BYTES,
    WIRE_DROPPED,
    WIRE_FRAMES,
    Advert,
    Control,
    Exit,
    Verdict,
)

_COMPILER = Compiler(
    "bulk",
    "testbed.sim.compiled_bulk",
    "testbed.sim.compiled_adverts",
    "testbed.sim.compiled_sets",
    "testbed.sim.compiled_witnesses",
    "testbed.sim.layout",
    "router.predicates.covering.boxes",
)
kernel, callee = _COMPILER.kernel, _COMPILER.callee


#: Interfaces of the first page of addresses: a frame to others goes by the core.
_FIRST_PAGE = 32
_CHILD = 0x3FFF
#: Filters that a level has room for, for each word of a row (`compiled_adverts`).
_ROOM = 96

_SIZE, _ADDED, _DONE, _NOW = int(Control.SIZE), int(Control.ADDED), int(Control.DONE), int(Control.NOW)
_MOVED, _LOGGED, _LOG_FRAMES = int(Control.MOVED), int(Control.LOGGED), int(Control.LOG_FRAMES)
_WORDS, _EPOCH, _UNDER_WAY = int(Control.WORDS), int(Control.EPOCH), int(Control.UNDER_WAY)
_LIMIT, _STALE, _CORE, _FULL = int(Exit.LIMIT), int(Exit.STALE), int(Exit.CORE), int(Exit.FULL)
_LENT, _TABLE_FILTERS, _VERDICT = int(Advert.LENT), int(Advert.TABLE_FILTERS), int(Advert.VERDICT)
_LEVEL_COUNT, _LEVELS_CAPACITY = int(Advert.LEVEL_COUNT), int(Advert.LEVELS_CAPACITY)
_STORED, _STORE_CAPACITY = int(Advert.STORED), int(Advert.STORE_CAPACITY)
_OPEN, _PASSES = int(Verdict.OPEN), int(Verdict.PASSES)


@kernel
def propagate(
    control: Array,
    heap: Array,
    wires: Array,
    wire_counts: Array,
    cuts: Array,
    nodes: Array,
    node_counts: Array,
    stale: Array,
    port_wires: Array,
    predicates: Array,
    messages: Array,
    matched: Array,
    adverts: Array,
    log: Array,
    before_ns: I64,
    before_number: I64,
    until_ns: I64,
    most: I64,
) -> I64:
    """Handles arrivals that come before the event (`before_ns`, `before_number`), and by `until_ns`.

    Args:
        predicates: uint64 [rows, words]: the filters of p_i, from the row of each router's interface 0 on.
        matched: uint64 [messages, words]: the filters that a message matches.
        port_wires: int64 [rows]: the wire of each interface.
        most: arrivals to handle at most.

    Returns:
        An `Exit`.
    """
    while control[_SIZE] > 0 and control[_DONE] < most:
        at, number = heap[0, AT], heap[0, NUMBER]
        if at > until_ns or at > before_ns or (at == before_ns and number > before_number):
            return _LIMIT
        wire, message, hops = heap[0, WIRE], heap[0, MESSAGE], heap[0, HOP_LIMIT]
        node, line = wires[wire, RECEIVER], wires[wire, LINE]
        if stale[node]:
            return _STALE
        if control[_LOGGED] + nodes[node, PORT_COUNT] + 4 > len(log):
            return _FULL
        if control[_SIZE] + nodes[node, PORT_COUNT] >= len(heap):
            return _FULL
        if cuts[line] != heap[0, CUTS]:
            wire_counts[wire, WIRE_DROPPED] += 1
            _take(control, heap, messages)
            continue
        issuer, length = messages[message, ISSUER], messages[message, LENGTH]
        # Hop limit, epoch, own frames, sources without a tree: the core says why a frame is dropped.
        if (
            hops < 2
            or messages[message, MESSAGE_EPOCH] != control[_EPOCH]
            or issuer == node
            or issuer >= nodes[node, SOURCES]
        ):
            return _CORE
        own = short_at(nodes[node, CLASS_OF], issuer) - 1
        if own < 0 or short_at(nodes[node, PARENTS], own) != wires[wire, INTERFACE]:
            return _CORE
        weight = messages[message, WEIGHT]
        if weight:
            ports = _children(nodes, node, own)
        else:
            ports = _outputs(nodes, node, own, predicates, matched, message, control[_WORDS])
        if ports < 0:
            return _CORE
        verdict = _PASSES
        if weight:
            words = control[_WORDS]
            # The most that the sets of one class can take.
            room = (LEVELS_MAX + 1) * (_ROOM * words + 2)
            if (
                adverts[_STORED] + room > adverts[_STORE_CAPACITY]
                or adverts[_LEVEL_COUNT] >= adverts[_LEVELS_CAPACITY]
            ):
                return _FULL
            verdict = adverts[_VERDICT]
            if verdict == _OPEN:
                if not nodes[node, OPEN] or nodes[node, FILTERS] >= adverts[_TABLE_FILTERS]:
                    return _CORE
                put_byte(adverts[_LENT], node, 1)
                if not may_send(adverts, wire, at, weight):
                    return _CORE
                verdict = admit(
                    adverts, nodes, node, own, wires[wire, INTERFACE], messages, message, hops - 1, words
                )
                if verdict < 0:
                    return -verdict
            adverts[_VERDICT] = _OPEN
            use(adverts, wire, weight)
            if verdict != _PASSES:
                ports = 0
        # The frame is taken.
        if control[_LOG_FRAMES]:
            _note(control, log, ARRIVED, at, wire, message, hops, heap[0, PORTS])
        _take(control, heap, messages)
        control[_MOVED] = at
        wire_counts[wire, WIRE_FRAMES] += 1
        wire_counts[wire, WIRE_BYTES] += length
        node_counts[node, HOST_IN_BYTES] += length
        local = False
        if weight:
            node_counts[node, RA_IN] += 1
            if verdict != _PASSES:
                node_counts[node, RA_COVERED] += 1
        else:
            node_counts[node, HOST_IN] += 1
            node_counts[node, RECEIVED] += 1
            local = _matches(predicates, nodes[node, ROW], matched, message, control[_WORDS])
        if ports:
            if weight:
                node_counts[node, RA_OUT] += 1
            else:
                node_counts[node, FORWARDED] += 1
                node_counts[node, HOST_OUT] += 1
            node_counts[node, HOST_OUT_BYTES] += length
            if control[_LOG_FRAMES]:
                _note(control, log, SENT, at, node, message, hops - 1, ports)
            for port in range(1, _FIRST_PAGE + 1):
                if ports >> port & 1:
                    out = port_wires[nodes[node, ROW] + port]
                    changes = cuts[wires[out, LINE]]
                    if changes & 1:
                        wire_counts[out, WIRE_DROPPED] += 1
                    else:
                        control[_ADDED] += 1
                        _push(
                            control,
                            heap,
                            at + wires[out, DELAY],
                            control[_ADDED],
                            out,
                            changes,
                            message,
                            hops - 1,
                            ports,
                        )
                        messages[message, PENDING] += 1
                        control[_UNDER_WAY] += 1
        if local:
            _note(control, log, DELIVERED, at, node, message, hops, 0)
        elif not ports and not weight:
            node_counts[node, UNWANTED] += 1
    return _LIMIT


@callee
def _outputs(
    nodes: Array, node: I64, own: I64, predicates: Array, matched: Array, message: I64, words: I64
) -> I64:
    """The interfaces that a message goes to, as bits; -1: one is beyond the first page of addresses."""
    first, children = nodes[node, FIRST], nodes[node, CHILDREN]
    found = 0
    for index in range(_uint_at(first, own), _uint_at(first, own + 1)):
        port = short_at(children, index) & _CHILD
        if port > _FIRST_PAGE:
            return -1
        if _matches(predicates, nodes[node, ROW] + port, matched, message, words):
            found |= 1 << port
    return found


@callee
def _children(nodes: Array, node: I64, own: I64) -> I64:
    """The children of a class, as bits; -1: one is beyond the first page of addresses."""
    first, children = nodes[node, FIRST], nodes[node, CHILDREN]
    found = 0
    for index in range(_uint_at(first, own), _uint_at(first, own + 1)):
        port = short_at(children, index) & _CHILD
        if port > _FIRST_PAGE:
            return -1
        found |= 1 << port
    return found


@callee
def _uint_at(address: Address, index: I64) -> I64:
    return short_at(address, 2 * index) | short_at(address, 2 * index + 1) << 16


@callee
def _matches(predicates: Array, row: I64, matched: Array, message: I64, words: I64) -> Flag:
    for word in range(words):  # noqa: SIM110 - Numba compiles no generators
        if predicates[row, word] & matched[message, word]:
            return True
    return False


@callee
def _note(
    control: Array, log: Array, what: I64, at: I64, where: I64, message: I64, hops: I64, ports: I64
) -> None:
    row = control[_LOGGED]
    log[row, 0], log[row, 1], log[row, 2] = what, at, where
    log[row, 3], log[row, 4], log[row, 5] = message, hops, ports
    control[_LOGGED] = row + 1


@callee
def _take(control: Array, heap: Array, messages: Array) -> None:
    """Takes the first arrival out of the heap."""
    control[_NOW] = heap[0, AT]
    control[_DONE] += 1
    control[_UNDER_WAY] -= 1
    messages[heap[0, MESSAGE], PENDING] -= 1
    drop_first(control, heap)


@kernel
def drop_first(control: Array, heap: Array) -> None:
    """Removes the first arrival of the heap."""
    size = control[_SIZE] - 1
    control[_SIZE] = size
    at, number, place = heap[size, AT], heap[size, NUMBER], 0
    while True:
        below = 2 * place + 1
        if below >= size:
            break
        if below + 1 < size and _precedes(
            heap[below + 1, AT], heap[below + 1, NUMBER], heap[below, AT], heap[below, NUMBER]
        ):
            below += 1
        if not _precedes(heap[below, AT], heap[below, NUMBER], at, number):
            break
        heap[place] = heap[below]
        place = below
    heap[place] = heap[size]


@callee
def _precedes(at: I64, number: I64, other_at: I64, other_number: I64) -> Flag:
    return at < other_at or (at == other_at and number < other_number)


@callee
def _push(
    control: Array,
    heap: Array,
    at: I64,
    number: I64,
    wire: I64,
    cuts: I64,
    message: I64,
    hops: I64,
    ports: I64,
) -> None:
    place = control[_SIZE]
    control[_SIZE] = place + 1
    while place > 0:
        above = (place - 1) >> 1
        if not _precedes(at, number, heap[above, AT], heap[above, NUMBER]):
            break
        heap[place] = heap[above]
        place = above
    heap[place, AT], heap[place, NUMBER], heap[place, WIRE], heap[place, CUTS] = at, number, wire, cuts
    heap[place, MESSAGE], heap[place, HOP_LIMIT], heap[place, PORTS] = message, hops, ports


@kernel
def push(control: Array, heap: Array, arrivals: Array) -> None:
    """Adds arrivals (int64 [count, ARRIVAL_WIDTH]), for which the heap has room."""
    for row in range(len(arrivals)):
        _push(
            control,
            heap,
            arrivals[row, AT],
            arrivals[row, NUMBER],
            arrivals[row, WIRE],
            arrivals[row, CUTS],
            arrivals[row, MESSAGE],
            arrivals[row, HOP_LIMIT],
            arrivals[row, PORTS],
        )
