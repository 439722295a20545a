"""Propagation of messages and RAs in compiled code, in the order of the agenda, as the core would decide.

The arrays are laid out by `testbed.sim.bulk`, which imports this module; it imports Numba. An arrival that is
not ordinary, or at a router whose state has changed, is left to the caller.
"""

from __future__ import annotations

import numpy as np

from router.forwarding.compiler import COMPILER as FORWARDING
from router.forwarding.delivered import note_delivered, was_delivered
from router.forwarding.record_text import put_delivery
from router.native.compiler import I64, Array, Compiler, Flag
from router.native.memory import put_byte, short_at
from router.native.words import WORD_BYTES, lowest
from testbed.sim.compiled_adverts import admit, may_send, use
from testbed.sim.compiled_ahead import CLASS_AHEAD, ask_ahead
from testbed.sim.compiled_outputs import children, outputs, selects
from testbed.sim.layout import (
    ARRIVED,
    AT,
    CLASS_OF,
    CUTS,
    DELAY,
    DELIVERED,
    DELIVERED_LAST,
    DELIVERIES,
    FILTERS,
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
    RECORD_HEAD,
    RECORD_HEAD_LENGTH,
    ROW,
    SENT,
    SEQUENCE,
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
    "testbed.sim.compiled_ahead",
    "testbed.sim.compiled_levels",
    "testbed.sim.compiled_outputs",
    "testbed.sim.compiled_sets",
    "testbed.sim.compiled_unions",
    "testbed.sim.compiled_witnesses",
    "testbed.sim.layout",
    "router.predicates.covering.boxes",
    "router.protocol.delivered",
    *FORWARDING.sources,
)
kernel, callee = _COMPILER.kernel, _COMPILER.callee


#: Filters that a level has room for, for each word of a row (`compiled_levels`).
_ROOM = 96

_SIZE, _ADDED, _DONE, _NOW = int(Control.SIZE), int(Control.ADDED), int(Control.DONE), int(Control.NOW)
_MOVED, _LOGGED, _LOG_FRAMES = int(Control.MOVED), int(Control.LOGGED), int(Control.LOG_FRAMES)
_WORDS, _EPOCH, _UNDER_WAY = int(Control.WORDS), int(Control.EPOCH), int(Control.UNDER_WAY)
_LIMIT, _STALE, _CORE, _FULL = int(Exit.LIMIT), int(Exit.STALE), int(Exit.CORE), int(Exit.FULL)
_LENT, _TABLE_FILTERS, _VERDICT = int(Advert.LENT), int(Advert.TABLE_FILTERS), int(Advert.VERDICT)
_LEVEL_COUNT, _LEVELS_CAPACITY = int(Advert.LEVEL_COUNT), int(Advert.LEVELS_CAPACITY)
_STORED, _STORE_CAPACITY = int(Advert.STORED), int(Advert.STORE_CAPACITY)
_QUEUED, _FRONT, _RECORDED = int(Control.QUEUED), int(Control.FRONT), int(Control.RECORDED)
_RECORDS, _RECORD_ROOM = int(Control.RECORDS), int(Control.RECORD_ROOM)
_TEXTS, _EPOCH_NS = int(Control.TEXTS), int(Control.EPOCH_NS)
#: Bytes of a record beyond its head.
_RECORD_BYTES = 128
_OPEN, _PASSES = int(Verdict.OPEN), int(Verdict.PASSES)


@kernel
def propagate(
    control: Array,
    heap: Array,
    queue: Array,
    wires: Array,
    wire_counts: Array,
    cuts: Array,
    nodes: Array,
    node_counts: Array,
    stale: Array,
    port_wires: Array,
    predicates: Array,
    messages: Array,
    samples: Array,
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
        queue: int64 [rows, ARRIVAL_WIDTH], rows a power of two: arrivals in order, from `Control.FRONT` on;
            `heap` has those that came in another order.
        predicates: uint64 [rows, width]: the filters of p_i, from the row of each router's interface 0 on.
        samples: int32 [rows, 1 + SAMPLED]: see `testbed.sim.compiled_outputs`.
        matched: uint64 [messages, width]: the filters that a message matches.
        port_wires: int64 [rows]: the wire of each interface.
        most: arrivals to handle at most.

    Returns:
        An `Exit`.
    """
    last, width = len(queue) - 1, predicates.shape[1]
    rows, samples_of = np.int64(predicates.ctypes.data), np.int64(samples.ctypes.data)
    matches, asked = np.int64(matched.ctypes.data), np.int64(queue.ctypes.data)
    receivers, entries = np.int64(wires.ctypes.data), np.int64(nodes.ctypes.data)
    changed_at, bodies = np.int64(stale.ctypes.data), np.int64(messages.ctypes.data)
    while control[_SIZE] + control[_QUEUED] > 0 and control[_DONE] < most:
        queued = _is_queued(control, heap, queue)
        front = control[_FRONT]
        if queued:
            at, number, wire, changed = (
                queue[front, AT],
                queue[front, NUMBER],
                queue[front, WIRE],
                queue[front, CUTS],
            )
            message, hops, addressed = queue[front, MESSAGE], queue[front, HOP_LIMIT], queue[front, PORTS]
        else:
            at, number, wire = heap[0, AT], heap[0, NUMBER], heap[0, WIRE]
            message, hops, addressed = heap[0, MESSAGE], heap[0, HOP_LIMIT], heap[0, PORTS]
            changed = heap[0, CUTS]
        if at > until_ns or at > before_ns or (at == before_ns and number > before_number):
            return _LIMIT
        node, line = wires[wire, RECEIVER], wires[wire, LINE]
        if stale[node]:
            return _STALE
        if control[_LOGGED] + nodes[node, PORT_COUNT] + 4 > len(log):
            return _FULL
        ports = nodes[node, PORT_COUNT]
        if control[_SIZE] + ports >= len(heap) or control[_QUEUED] + ports >= len(queue):
            return _FULL
        if control[_RECORDED] + nodes[node, RECORD_HEAD_LENGTH] + _RECORD_BYTES > control[_RECORD_ROOM]:
            return _FULL
        if queued and control[_QUEUED] > CLASS_AHEAD:
            ask_ahead(asked, front, last, receivers, entries, changed_at, bodies, adverts)
        if cuts[line] != changed:
            wire_counts[wire, WIRE_DROPPED] += 1
            _take(control, heap, queue, messages, at, message)
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
        selected = matches + message * width * WORD_BYTES
        if weight:
            ports = children(nodes, node, own)
        else:
            ports = outputs(nodes, node, own, rows, samples_of, selected, width)
        if ports < 0:
            return _CORE
        local = not weight and selects(rows, samples_of, nodes[node, ROW], selected, width)
        # Now, not with what is left to the core: the message may be forgotten by then.
        if local and nodes[node, RECORD_HEAD]:
            delivered, source = nodes[node, DELIVERED_LAST], messages[message, ISSUER]
            if was_delivered(delivered, source, messages[message, SEQUENCE]):
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
            _note(control, log, ARRIVED, at, wire, message, hops, addressed)
        _take(control, heap, queue, messages, at, message)
        control[_MOVED] = at
        wire_counts[wire, WIRE_FRAMES] += 1
        wire_counts[wire, WIRE_BYTES] += length
        node_counts[node, HOST_IN_BYTES] += length
        if weight:
            node_counts[node, RA_IN] += 1
            if verdict != _PASSES:
                node_counts[node, RA_COVERED] += 1
        else:
            node_counts[node, HOST_IN] += 1
            node_counts[node, RECEIVED] += 1
        if ports:
            if weight:
                node_counts[node, RA_OUT] += 1
            else:
                node_counts[node, FORWARDED] += 1
                node_counts[node, HOST_OUT] += 1
            node_counts[node, HOST_OUT_BYTES] += length
            if control[_LOG_FRAMES]:
                _note(control, log, SENT, at, node, message, hops - 1, ports)
            left = ports
            while left:
                out = port_wires[nodes[node, ROW] + lowest(left)]
                left &= left - 1
                changes = cuts[wires[out, LINE]]
                if changes & 1:
                    wire_counts[out, WIRE_DROPPED] += 1
                    continue
                control[_ADDED] += 1
                _schedule(
                    control,
                    heap,
                    queue,
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
            if nodes[node, RECORD_HEAD]:
                _deliver(control, nodes, node, messages, message, at)
                node_counts[node, DELIVERIES] += 1
            else:
                _note(control, log, DELIVERED, at, node, message, hops, control[_RECORDED])
        elif not ports and not weight:
            node_counts[node, UNWANTED] += 1
    return _LIMIT


@callee
def _note(
    control: Array, log: Array, what: I64, at: I64, where: I64, message: I64, hops: I64, ports: I64
) -> None:
    row = control[_LOGGED]
    log[row, 0], log[row, 1], log[row, 2] = what, at, where
    log[row, 3], log[row, 4], log[row, 5] = message, hops, ports
    control[_LOGGED] = row + 1


@callee
def _deliver(control: Array, nodes: Array, node: I64, messages: Array, message: I64, at_ns: I64) -> None:
    """Delivers a message that p0 selects, as `router.protocol.messages.Messages.deliver` does, to the only
    application."""
    head = nodes[node, RECORD_HEAD]
    source, seq = messages[message, ISSUER], messages[message, SEQUENCE]
    note_delivered(nodes[node, DELIVERED_LAST], source, seq)
    start = control[_RECORDS] + control[_RECORDED]
    length = nodes[node, RECORD_HEAD_LENGTH]
    end = put_delivery(control[_TEXTS], control[_EPOCH_NS] + at_ns, head, length, source, seq, start)
    control[_RECORDED] += end - start


@callee
def _take(control: Array, heap: Array, queue: Array, messages: Array, at: I64, message: I64) -> None:
    """Takes the first arrival out."""
    control[_NOW] = at
    control[_DONE] += 1
    control[_UNDER_WAY] -= 1
    messages[message, PENDING] -= 1
    drop_first(control, heap, queue)


@callee
def _is_queued(control: Array, heap: Array, queue: Array) -> Flag:
    """Whether the first arrival is that of the queue."""
    front = control[_FRONT]
    return control[_QUEUED] > 0 and (
        control[_SIZE] == 0 or _precedes(queue[front, AT], queue[front, NUMBER], heap[0, AT], heap[0, NUMBER])
    )


@kernel
def drop_first(control: Array, heap: Array, queue: Array) -> None:
    """Removes the first arrival."""
    if _is_queued(control, heap, queue):
        control[_FRONT] = (control[_FRONT] + 1) & (len(queue) - 1)
        control[_QUEUED] -= 1
        return
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
def _schedule(
    control: Array,
    heap: Array,
    queue: Array,
    at: I64,
    number: I64,
    wire: I64,
    cuts: I64,
    message: I64,
    hops: I64,
    ports: I64,
) -> None:
    """Adds an arrival with a new number: to the queue, unless it comes before the last arrival there."""
    queued, last = control[_QUEUED], len(queue) - 1
    if queued and at < queue[(control[_FRONT] + queued - 1) & last, AT]:
        _push(control, heap, at, number, wire, cuts, message, hops, ports)
        return
    _put(queue, (control[_FRONT] + queued) & last, at, number, wire, cuts, message, hops, ports)
    control[_QUEUED] = queued + 1


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
    _put(heap, place, at, number, wire, cuts, message, hops, ports)


@callee
def _put(
    arrivals: Array,
    row: I64,
    at: I64,
    number: I64,
    wire: I64,
    cuts: I64,
    message: I64,
    hops: I64,
    ports: I64,
) -> None:
    arrivals[row, AT], arrivals[row, NUMBER] = at, number
    arrivals[row, WIRE], arrivals[row, CUTS] = wire, cuts
    arrivals[row, MESSAGE], arrivals[row, HOP_LIMIT], arrivals[row, PORTS] = message, hops, ports


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
