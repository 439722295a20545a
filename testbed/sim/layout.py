"""The layout of the arrays by which compiled code propagates messages and RAs (`testbed.sim.bulk`)."""

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
    QUEUED = 10  # arrivals in the queue
    FRONT = 11  # place of the first of them
    RECORDED = 12  # bytes of records of deliveries
    RECORDS = 13  # address of these bytes
    RECORD_ROOM = 14  # of these bytes
    TEXTS = 15  # address of `router.forwarding.layout.TEXT`
    EPOCH_NS = 16  # wall clock at virtual time 0


class Exit(IntEnum):
    """Why a call ended."""

    LIMIT = 0  # the next event is not in the heap, or is too late, or enough were handled
    STALE = 1  # the router of the next arrival has changed: to be laid out again
    CORE = 2  # the first arrival of the heap is the core's
    FULL = 3  # the log or the heap is full
    ASK = 4  # predicates of the first arrival, an RA, are to be united by the pool of filters
    RELATE = 5  # the relations of a filter are to be laid out (`Advert.FILTER`)
    QUESTION = 7  # a question about filters is to be answered (`Advert.FILTER`)
    LEND = 6  # F of the class of the first arrival, an RA, is to be laid out


class Advert(IntEnum):
    """Items of the array `adverts` (int64): state by which RAs are handled; addresses of arrays."""

    PREDICATES = 0  # int64 [rows, WIDTH]: the filters of p_i
    WIDTH = 1  # words of a row of filters
    RELATIONS = 2  # int64 [places, KINDS, WIDTH]
    BOXES = 3  # uint8 by filter: `Relations.is_box`, and twice the number of witnesses
    SCRATCH = 4  # int64 [LEVELS_MAX + 4, WIDTH]
    NUMBERS = 5  # int64 [messages, FILTERS_MAX]: filters of an RA
    LEVELS = 6  # int32 [LEVELS_CAPACITY, LEVEL_WIDTH]: F of a class and a number of hops
    LEVEL_COUNT = 7
    LEVELS_CAPACITY = 8
    STORE = 9  # int32 [STORE_CAPACITY]: the filters of F, in ascending order
    STORED = 10
    STORE_CAPACITY = 11
    HEADS = 12  # int32: the first level of each class of each router; -1: none, -2: not laid out
    BUCKETS = 13  # double [wires, 2]: what a neighbour may send, and when this was computed
    CHANGED = 14  # uint8 by row of predicates: compiled code has changed p_i
    USED = 15  # uint8 by wire: compiled code has changed the bucket
    LENT = 16  # uint8 by node: compiled code has changed something
    TURN_PAIRS = 17  # `PredicateLimits`
    TABLE_FILTERS = 18
    STRICT = 19  # 1: an RA goes on if it changes p_i
    VERDICT = 20  # of the first arrival, for which compiled code asked: a `Verdict`
    FILTER = 21  # whose relations are missing, or about which there is a question
    REALS = 22  # double: items `Real`
    START_NS = 23  # start of the piece of the experiment clock
    ANSWERS = 24  # int64 [SLOTS]: places of answers in `MEMORY`, from 1, by hash of the question; 0: none
    SLOTS = 25  # a power of 2
    MEMORY = 26  # int64 [MEMORY_CAPACITY]: see `HASH`
    MEMORISED = 27
    MEMORY_CAPACITY = 28
    SLOT = 29  # of the question that is open
    PLACES = 30  # int32 by filter: its place in `RELATIONS`; -1: none
    QUESTION_PAIRS = 31  # that a question about the RA in hand uses up
    SHAPES = 32  # int32 by filter: where its record begins in `RECORDS`; negative: it has none
    RECORDS = 33  # int64: see `testbed.sim.ranks`
    SEARCH = 34  # int64: boxes of the search for a witness, and the place of each attribute in them
    REPLACED = 35  # witnesses that others have replaced
    SAMPLES = 36  # int32 [rows, 1 + SAMPLED]: see `testbed.sim.compiled_outputs`
    COMPLETE = 37  # int32 by filter: so many words, the first of a row, have no filter that is not searched


class Real(IntEnum):
    """Items of the array of doubles of `Advert`."""

    EXPERIMENT_S = 0  # the experiment second at `START_NS`
    RATE = 1  # of the experiment clock
    BURST = 2  # of a bucket
    REFILL = 3  # weight a second that a bucket gains


class Verdict(IntEnum):
    """Whether an RA goes on."""

    OPEN = 0
    COVERED = 1
    PASSES = 2


class Relation(IntEnum):
    """Rows of the relations of a filter, as in `router.predicates.covering.relations`."""

    SEARCHED = 0
    POSSIBLE_COVERS = 1
    COVERS = 2
    LOW_CORNER = 3
    HIGH_CORNER = 4
    COVERS_EXCEPT = 5  # but for values of any one attribute
    AFFECTED = 6
    MERGEABLE = 7  # in any attribute
    POSSIBLY_COVERED = 8
    COVERED = 9
    COVERED_EXCEPT_ONE = 10
    COSTLY = 11  # `FilterPool.costly`
    NEAR = 12  # those that the filter may be related to: not searched, possible covers, or affected


#: Messages of a filter that others left out (`testbed.sim.compiled_witnesses`): each has a row of the filters
#: that match it.
WITNESSES_MAX = 8
#: Attributes of a filter of which messages are looked for, and boxes that wait in a search.
BOXED_MAX, BOXES_WAITING = 8, 128
#: No record of a filter (`testbed.sim.ranks`).
NO_RECORD = -1
#: Columns of a pattern: its number among those of the attribute, and the addresses of bytes: by rank, whether
#: there is a text of the pattern from this rank on, until the next; whether the key is such a text, or no
#: text; whether the key has any of the substrings, or is no text; by number of another pattern, whether the
#: texts of this one are texts of the other: none, all, or perhaps those at keys with any of the substrings.
NUMBER_OF_PATTERN, HAS_TEXT, IS_TEXT, HAS_PART, TEXTS_OF = range(5)
NO_TEXT, EVERY_TEXT, SOME_TEXTS = range(3)
#: Rows of a filter in `Advert.RELATIONS`: its relations, and its witnesses.
KINDS = len(Relation) + WITNESSES_MAX


class Question(IntEnum):
    """Questions about a filter and a set of others, with `FilterPool` functions that answer them."""

    COVERED = 0  # covered_by_several, not jointly
    COVERED_JOINTLY = 1  # covered_by_several, jointly
    MERGED = 2  # merged
    ORDER = 3  # in_order: the filter is one of the others


#: A question and its answer: a hash, the filter, the question, the number of other filters, their numbers;
#: then, for COVERED and COVERED_JOINTLY, 1 or 0; for ORDER the filters in order; for MERGED the pairs that
#: the question costs, how many filters are removed and their numbers, and how many are added instead and
#: their numbers.
HASH, ABOUT, ASKED, OTHERS, FIRST_OTHER = range(5)
#: An RA of more filters, and a class with F of more numbers of hops, are the core's.
FILTERS_MAX = 32
LEVELS_MAX = 64
#: Rows of the scratch memory; those from `LOWER_ROW` on are of levels.
PREDICATE_ROW, KNOWN_ROW, LOWER_ROW, WAITING_ROW, FOUND_ROW = 0, 1, 2, LEVELS_MAX + 2, LEVELS_MAX + 3
#: In place of the negative of an `Exit`: a filter of an RA is related to those of a table, or the bound on
#: pairs is near.
RELATED = -1000
#: Columns of a level: hops, the next level of the class (-1: none), and in `STORE` where its filters begin,
#: their number, and how many have room.
HOPS, NEXT, OFFSET, COUNT, ROOM, LEVEL_WIDTH = range(6)


#: A row of samples (int32): how many filters a row of p_i has, `SAMPLED + 1` standing for more, `UNKNOWN`
#: after a change; and the numbers of `SAMPLED` of them. It is as long as a line of the processor's cache.
SAMPLED, UNKNOWN = 15, -1
SAMPLE_BYTES = 4 * (1 + SAMPLED)

#: Columns of an arrival: time, number of the event, wire, changes of the link when it was sent, row of the
#: message, hop limit, interfaces that the frame was addressed to (bits).
AT, NUMBER, WIRE, CUTS, MESSAGE, HOP_LIMIT, PORTS, ARRIVAL_WIDTH = range(8)
#: Columns of a wire: receiver, delay (ns), line, the receiver's interface.
RECEIVER, DELAY, LINE, INTERFACE, WIRE_WIDTH = range(5)
#: Columns of what a wire counts.
WIRE_FRAMES, WIRE_BYTES, WIRE_DROPPED, WIRE_COUNTS = range(4)
#: Columns of a router: addresses of class_of, of the parents of its classes, of where their children begin,
#: of the children; number of sources; row of interface 0; number of interfaces; address of the depths of its
#: classes (uint16); where the heads of its classes begin; filters of its routing table; 1: RAs are ordinary;
#: of the one application that gets every message that p0 selects the address and length of the head of its
#: records (0: the core delivers), and the address of the slots of `router.protocol.delivered`.
CLASS_OF, PARENTS, FIRST, CHILDREN, SOURCES, ROW, PORT_COUNT, DEPTHS, HEAD, FILTERS, OPEN = range(11)
RECORD_HEAD, RECORD_HEAD_LENGTH, DELIVERED_LAST, NODE_WIDTH = range(11, 15)
#: Columns of what a router and its host link count.
HOST_IN, HOST_IN_BYTES, HOST_OUT, HOST_OUT_BYTES, RECEIVED, FORWARDED, UNWANTED = range(7)
RA_IN, RA_OUT, RA_COVERED, DELIVERIES, NODE_COUNTS = range(7, 12)
#: Columns of a message or RA: issuer, epoch, bytes of its Ethernet frame, arrivals in the heap; of an RA
#: the number of its filters and its weight, which is 0 for a message; number of the frame.
ISSUER, MESSAGE_EPOCH, LENGTH, PENDING, FILTER_COUNT, WEIGHT, SEQUENCE, MESSAGE_WIDTH = range(8)
#: Columns of the log: what happened, time, wire or node, message, hop limit, interfaces of the frame; of a
#: delivery, in place of interfaces, `Control.RECORDED`.
LOG_WIDTH = 6
ARRIVED, SENT, DELIVERED = range(3)
