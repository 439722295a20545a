"""The layout of the arrays by which compiled code propagates messages (`testbed.sim.bulk`)."""

from __future__ import annotations

from enum import IntEnum


class Control(IntEnum):
    """Items of the array `control` (int64)."""

    SIZE = 0  # arrivals in the heap
    ADDED = 1  # events that were scheduled so far, over the whole agenda
    DONE = 2  # arrivals handled in this call
    NOW = 3  # time of the last of them, ns
    MOVED = 4  # time at which a frame last moved, ns
    LOGGED = 5  # rows of the log
    LOG_FRAMES = 6  # 1: frames sent and received are logged; 0: deliveries alone
    WORDS = 7  # words of a row of predicates in use
    EPOCH = 8  # the epoch whose tables are laid out
    UNDER_WAY = 9  # change of the number of frames under way


class Exit(IntEnum):
    """Why a call ended."""

    LIMIT = 0  # the next event is not in the heap, or is too late, or enough were handled
    STALE = 1  # the router of the next arrival has changed: to be laid out again
    CORE = 2  # the first arrival of the heap is the core's
    FULL = 3  # the log or the heap is full


#: Columns of an arrival: time, number of the event, wire, changes of the link when it was sent, row of the
#: message, hop limit, interfaces that the frame was addressed to (bits).
AT, NUMBER, WIRE, CUTS, MESSAGE, HOP_LIMIT, PORTS, ARRIVAL_WIDTH = range(8)
#: Columns of a wire: receiver, delay (ns), line, the receiver's interface.
RECEIVER, DELAY, LINE, INTERFACE, WIRE_WIDTH = range(5)
#: Columns of what a wire counts.
WIRE_FRAMES, WIRE_BYTES, WIRE_DROPPED, WIRE_COUNTS = range(4)
#: Columns of a router: addresses of class_of, of the parents of its classes, of where their children begin,
#: of the children; number of sources; row of interface 0; number of interfaces.
CLASS_OF, PARENTS, FIRST, CHILDREN, SOURCES, ROW, PORT_COUNT, NODE_WIDTH = range(8)
#: Columns of what a router and its host link count.
HOST_IN, HOST_IN_BYTES, HOST_OUT, HOST_OUT_BYTES, RECEIVED, FORWARDED, UNWANTED, NODE_COUNTS = range(8)
#: Columns of a message: issuer, epoch, bytes of its Ethernet frame, arrivals in the heap.
ISSUER, MESSAGE_EPOCH, LENGTH, PENDING, MESSAGE_WIDTH = range(5)
#: Columns of the log: what happened, time, wire or node, message, hop limit, interfaces of the frame.
LOG_WIDTH = 6
ARRIVED, SENT, DELIVERED = range(3)
