"""Deliveries to local applications in compiled code.

A message that p0 selects is matched against the predicates of the applications; its line of text
(docs/application-socket.md) waits for the end of the batch, when each application gets all its lines in one
call. A delivery is recorded once the socket has taken its line.

`state` is the address of the row of a router (`layout.State`).
"""

from __future__ import annotations

from time import CLOCK_MONOTONIC, CLOCK_REALTIME

from router.forwarding.compiler import callee
from router.forwarding.json_text import put_attributes, put_unsigned
from router.forwarding.layout import (
    ANSWER_ID,
    ANSWER_SOURCE,
    APP_DENSE,
    APP_DESCRIPTOR,
    APP_HEAD,
    APP_HEAD_LENGTH,
    APP_QUEUED,
    APP_WIDTH,
    ENTRIES_SIZE,
    ENTRY_APP,
    ENTRY_AT,
    ENTRY_LENGTH,
    ENTRY_SEQ,
    ENTRY_SOURCE,
    ENTRY_WIDTH,
    LINE_ATTRIBUTES,
    LINE_END,
    LINE_OVERHEAD,
    LINE_SOURCE,
    MOST_CHOSEN,
    RECORD_END,
    RECORD_SOURCE,
    RECORDS_SIZE,
    REQUEST_TIME,
    REQUESTED,
    SEQ,
    TEXT_LENGTHS,
    State,
)
from router.forwarding.record_text import put_delivery, put_text
from router.forwarding.row import add, time_of
from router.matching.compiled.layout import Search
from router.matching.compiled.matching import TABLE_SEARCH, match_at
from router.native.compiler import I64, Address, Flag
from router.native.memory import byte_at, int_at, long_at, put_byte, put_long
from router.native.system import memcpy, writev

_APPS, _APP_COUNT, _APP_TABLE = int(State.APPS), int(State.APP_COUNT), int(State.APP_TABLE)
_APP_OPEN, _APP_MARK, _CHOSEN = int(State.APP_OPEN), int(State.APP_MARK), int(State.CHOSEN)
_ENTRIES, _ENTRY_COUNT = int(State.ENTRIES), int(State.ENTRY_COUNT)
_LINES, _LINES_SIZE, _LINES_AT = int(State.LINES), int(State.LINES_SIZE), int(State.LINES_AT)
_LINE_PIECES, _TEXTS = int(State.LINE_PIECES), int(State.TEXTS)
_RECORDS, _RECORDS_AT, _RECORD_ROOM = int(State.RECORDS), int(State.RECORDS_AT), int(State.RECORD_ROOM)
_RECORDS_DUE, _RECORDS_DELAY = int(State.RECORDS_DUE), int(State.RECORDS_DELAY)
_DELIVERED = int(State.DELIVERED)
_ATTRIBUTES, _ATTRIBUTES_LENGTH = int(State.ATTRIBUTES), int(State.ATTRIBUTES_LENGTH)
_FOUND, _STEPS = int(Search.FOUND), int(Search.STEPS)
_MONOTONIC, _REALTIME = int(CLOCK_MONOTONIC), int(CLOCK_REALTIME)
_APP_BYTES, _ENTRY_BYTES = 8 * APP_WIDTH, 8 * ENTRY_WIDTH


@callee
def choose(state: Address, body: Address, size: I64) -> I64:
    """Finds the applications that get a message which p0 selects: `State.CHOSEN`.

    A search that takes too long leaves the message to the core, which finds them in several turns.

    Returns:
        Their number, or -1: the message is the core's.
    """
    table, mark = long_at(state, _APP_TABLE), long_at(state, _APP_MARK)
    count = long_at(state, _APP_COUNT)
    if count == 0:
        return -1
    found = match_at(body, size, table, long_at(state, _APP_OPEN), count, 0)
    search = long_at(table, TABLE_SEARCH)
    names, exact = long_at(search, _FOUND), long_at(search, _STEPS) >= 0
    for at in range(found):
        put_byte(mark, int_at(names, at), 1)
    app, chosen, served = long_at(state, _APPS), 0, exact and 0 <= found <= MOST_CHOSEN
    for _ in range(count):
        if byte_at(mark, long_at(app, APP_DENSE)):
            put_byte(mark, long_at(app, APP_DENSE), 0)
            if long_at(app, APP_DESCRIPTOR) < 0:
                served = False
            elif served:
                put_long(long_at(state, _CHOSEN), chosen, app)
                chosen += 1
        app += _APP_BYTES
    if not served or (chosen and not has_room(state, chosen, size)):
        return -1
    return chosen


@callee
def write_line(state: Address, source: I64, seq: I64) -> I64:
    """Writes the line of the message that was matched last behind those that wait.

    Returns:
        Its bytes, or 0: the message is the core's.
    """
    texts = long_at(state, _TEXTS)
    start = long_at(state, _LINES) + long_at(state, _LINES_AT)
    at = put_text(texts, LINE_SOURCE, start)
    at = put_text(texts, SEQ, put_unsigned(source, at))
    at = put_text(texts, LINE_ATTRIBUTES, put_unsigned(seq, at))
    attributes, at = at, put_attributes(long_at(long_at(state, _APP_TABLE), TABLE_SEARCH), at)
    put_long(state, _ATTRIBUTES, attributes)
    put_long(state, _ATTRIBUTES_LENGTH, at - attributes)
    return put_text(texts, LINE_END, at) - start if at else 0


@callee
def queue(state: Address, chosen: I64, length: I64, source: I64, seq: I64) -> None:
    """Lets the line that was written last wait for the chosen applications; the caller keeps its place."""
    start = long_at(state, _LINES) + long_at(state, _LINES_AT)
    for number in range(chosen):
        _add_entry(state, long_at(long_at(state, _CHOSEN), number), start, length, source, seq)
    add(state, _DELIVERED, 1)


@callee
def answer(
    state: Address, app: Address, digits: Address, count: I64, line: I64, source: I64, seq: I64
) -> I64:
    """Writes the answer to a request to send a message, `line` bytes behind the lines that wait.

    Args:
        digits, count: the number of the request, as text.

    Returns:
        Its bytes.
    """
    texts = long_at(state, _TEXTS)
    start = long_at(state, _LINES) + long_at(state, _LINES_AT) + line
    at = put_text(texts, ANSWER_ID, start)
    memcpy(at, digits, count)
    at = put_unsigned(source, put_text(texts, ANSWER_SOURCE, at + count))
    at = put_text(texts, RECORD_END, put_unsigned(seq, put_text(texts, SEQ, at)))
    _add_entry(state, app, start, at - start, -1, seq)
    return at - start


@callee
def _add_entry(state: Address, app: Address, at: Address, length: I64, source: I64, seq: I64) -> None:
    entry = long_at(state, _ENTRIES) + long_at(state, _ENTRY_COUNT) * _ENTRY_BYTES
    put_long(entry, ENTRY_APP, app)
    put_long(entry, ENTRY_AT, at)
    put_long(entry, ENTRY_LENGTH, length)
    put_long(entry, ENTRY_SOURCE, source)
    put_long(entry, ENTRY_SEQ, seq)
    put_long(app, APP_QUEUED, long_at(app, APP_QUEUED) + 1)
    add(state, _ENTRY_COUNT, 1)


@callee
def deliver(state: Address) -> None:
    """Gives the applications the lines that wait, and records those that their sockets have taken.

    An application whose socket has not taken all gets no further message from compiled code; its entries stay
    for the caller.
    """
    if long_at(state, _ENTRY_COUNT) == 0:
        return
    app = long_at(state, _APPS)
    for _ in range(long_at(state, _APP_COUNT)):
        if long_at(app, APP_QUEUED):
            put_long(app, APP_QUEUED, 0)
            _write(state, app)
        app += _APP_BYTES
    _keep_what_is_left(state)


@callee
def _write(state: Address, app: Address) -> None:
    entries, pieces, count = long_at(state, _ENTRIES), long_at(state, _LINE_PIECES), 0
    for number in range(long_at(state, _ENTRY_COUNT)):
        entry = entries + number * _ENTRY_BYTES
        if long_at(entry, ENTRY_APP) == app:
            put_long(pieces, 2 * count, long_at(entry, ENTRY_AT))
            put_long(pieces, 2 * count + 1, long_at(entry, ENTRY_LENGTH))
            count += 1
    taken = max(0, writev(long_at(app, APP_DESCRIPTOR), pieces, count))
    now = time_of(state, _REALTIME)
    for number in range(long_at(state, _ENTRY_COUNT)):
        entry = entries + number * _ENTRY_BYTES
        if long_at(entry, ENTRY_APP) == app:
            length = long_at(entry, ENTRY_LENGTH)
            if length <= taken:
                taken -= length
                put_long(entry, ENTRY_LENGTH, 0)
                if long_at(entry, ENTRY_SOURCE) >= 0:
                    _record(state, app, entry, now)
            else:
                put_long(entry, ENTRY_AT, long_at(entry, ENTRY_AT) + taken)
                put_long(entry, ENTRY_LENGTH, length - taken)
                taken = 0
                put_long(app, APP_DESCRIPTOR, -1)


@callee
def _keep_what_is_left(state: Address) -> None:
    entries, kept = long_at(state, _ENTRIES), 0
    for number in range(long_at(state, _ENTRY_COUNT)):
        entry = entries + number * _ENTRY_BYTES
        if long_at(entry, ENTRY_LENGTH):
            if kept < number:
                memcpy(entries + kept * _ENTRY_BYTES, entry, _ENTRY_BYTES)
            kept += 1
    put_long(state, _ENTRY_COUNT, kept)
    if kept == 0:
        put_long(state, _LINES_AT, 0)


@callee
def has_room(state: Address, lines: I64, size: I64) -> Flag:
    """Makes room for lines about a message with a body of `size` bytes; writes those that wait if need be."""
    for _ in range(2):
        waiting = long_at(state, _ENTRY_COUNT) + lines
        if (
            waiting <= ENTRIES_SIZE
            and long_at(state, _LINES_AT) + 2 * size + LINE_OVERHEAD <= long_at(state, _LINES_SIZE)
            and long_at(state, _RECORDS_AT) + waiting * long_at(state, _RECORD_ROOM) + 2 * size
            <= RECORDS_SIZE
        ):
            return True
        deliver(state)
        if long_at(state, _ENTRY_COUNT):
            return False
    return False


@callee
def _record(state: Address, app: Address, entry: Address, now: I64) -> None:
    """Writes the record of a delivery, as `router.records.applications` does."""
    start = _next_record(state)
    end = put_delivery(
        long_at(state, _TEXTS),
        now,
        long_at(app, APP_HEAD),
        long_at(app, APP_HEAD_LENGTH),
        long_at(entry, ENTRY_SOURCE),
        long_at(entry, ENTRY_SEQ),
        start,
    )
    add(state, _RECORDS_AT, end - start)


@callee
def record_request(
    state: Address, app: Address, source: I64, seq: I64, requested: I64, text: Address, length: I64
) -> None:
    """Writes the record of a message that an application has sent, with its attributes as text."""
    texts, start = long_at(state, _TEXTS), _next_record(state)
    at = put_unsigned(time_of(state, _REALTIME), put_text(texts, REQUEST_TIME, start))
    head = long_at(app, APP_HEAD_LENGTH) - TEXT_LENGTHS[RECORD_SOURCE]
    memcpy(at, long_at(app, APP_HEAD), head)
    at = put_unsigned(requested, put_text(texts, REQUESTED, at + head))
    at = put_unsigned(source, put_text(texts, RECORD_SOURCE, at))
    at = put_unsigned(seq, put_text(texts, SEQ, at))
    at = put_text(texts, LINE_ATTRIBUTES, at)
    memcpy(at, text, length)
    add(state, _RECORDS_AT, put_text(texts, LINE_END, at + length) - start)


@callee
def _next_record(state: Address) -> Address:
    """The place of the next record."""
    if long_at(state, _RECORDS_AT) == 0:
        put_long(state, _RECORDS_DUE, time_of(state, _MONOTONIC) + long_at(state, _RECORDS_DELAY))
    return long_at(state, _RECORDS) + long_at(state, _RECORDS_AT)
