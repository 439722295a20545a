"""The local applications as compiled code knows them: predicates, sockets, and what waits for them."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from router.forwarding.json_request import REQUEST
from router.forwarding.layout import (
    APP_DENSE,
    APP_DESCRIPTOR,
    APP_HEAD,
    APP_HEAD_LENGTH,
    APP_NUMBER,
    APP_WIDTH,
    ENTRIES_SIZE,
    ENTRY_APP,
    ENTRY_AT,
    ENTRY_LENGTH,
    ENTRY_SEQ,
    ENTRY_SOURCE,
    ENTRY_WIDTH,
    LINE_OVERHEAD,
    MOST_CHOSEN,
    RECORD_OVERHEAD,
    RECORDS_SIZE,
    REQUESTS_SIZE,
    TEXT,
    State,
)
from router.matching.compiled.engine import CompiledMatcher
from router.native.memory import address_of
from router.predicates.covering.budget import weight_of
from router.predicates.model import NOTHING, Filter, Predicate
from router.protocol.service import DecidingPredicates
from router.records.record_file import DELAY_S

_RECORDS_AT, _RECORDS_DUE, _ENTRY_COUNT = (
    int(State.RECORDS_AT),
    int(State.RECORDS_DUE),
    int(State.ENTRY_COUNT),
)
_LINES_AT = int(State.LINES_AT)
_REQUESTS_AT, _REQUESTS_END, _REQUESTS_APP = (
    int(State.REQUESTS_AT),
    int(State.REQUESTS_END),
    int(State.REQUESTS_APP),
)
#: Filters of the predicates of applications that the matcher is given before one call of compiled code.
_PART = 128
#: Weight of a filter that takes the matcher as long as a further filter.
_WEIGHT = 8
#: Steps of a search among the predicates of applications, 1 ms; of those that take longer the core decides.
_STEPS = 100_000
#: Bytes of lines that wait for the end of a batch, at least.
_LINES_SIZE = 65_536
_TEXTS = np.frombuffer(b"".join(TEXT), np.uint8)
_TEXTS_ADDRESS = int(_TEXTS.ctypes.data)
_REQUEST = np.frombuffer(b"".join(REQUEST), np.uint8)
_REQUEST_ADDRESS = int(_REQUEST.ctypes.data)


@dataclass(frozen=True, slots=True)
class Waiting:
    """A line of which the socket has not taken all bytes.

    Attributes:
        length: bytes that it has not taken.
        source, seq: identify the message that the line delivers; source None: the line is an answer.
    """

    length: int
    source: int | None
    seq: int


class Deliverer(Protocol):
    """Takes what compiled code leaves: `router.runtime.applications.Applications`."""

    def recorded(self, records: bytes, since: float) -> None:
        """Keeps the records of deliveries; the first of them was written at `since` (`time.monotonic`)."""

    def left(self, number: int, lines: bytes, deliveries: Sequence[Waiting]) -> None:
        """Sends what the socket of an application has not taken; it is shut for compiled code."""

    def requested(self, number: int, data: bytes) -> None:
        """Takes what was read from the socket of an application and not served; it is shut, as above."""


@dataclass(slots=True)
class _Outlet:
    """The socket of an application to which compiled code may write, and the head of its records."""

    descriptor: int
    head: npt.NDArray[np.uint8]


class LocalApplications:
    """Keeps the rows of the applications that have predicates.

    An application is unknown to compiled code, and its deliveries are the core's, until `open`.

    Args:
        predicates: of the applications.
        row: int64 [State.SIZE], the row of the router.
        body: bytes of the longest body of a message that compiled code delivers.

    Attributes:
        deliverer: takes what compiled code leaves; None: no application was opened.
        ready: whether the matcher has all predicates. Until then messages are the core's; each call of
            `prepare` gives it some filters.
    """

    def __init__(self, predicates: DecidingPredicates, row: npt.NDArray[np.int64], body: int) -> None:
        self.deliverer: Deliverer | None = None
        self.ready = False
        self._predicates = predicates
        self._seen = -1
        self._row, self._state = row, row.data
        self._outlets: dict[int, _Outlet] = {}
        self._matcher = CompiledMatcher()
        self._matcher.bound(_STEPS)
        #: What the matcher has: the filters of each application, by identity.
        self._given: dict[int, dict[int, Filter]] = {}
        #: The predicates that it has been given, or is being given.
        self._taken: dict[int, Predicate] = {}
        #: What it has not been given yet: the application, whether a filter comes or goes, and the filter.
        self._waiting: deque[tuple[int, bool, Filter]] = deque()
        self._apps: npt.NDArray[np.int64] = np.zeros((0, APP_WIDTH), np.int64)
        self._places: dict[int, int] = {}
        # Without a value: memory that is never used is never touched.
        self._lines: npt.NDArray[np.uint8] = np.empty(max(_LINES_SIZE, 4 * body + LINE_OVERHEAD), np.uint8)
        self._entries: npt.NDArray[np.int64] = np.empty((ENTRIES_SIZE, ENTRY_WIDTH), np.int64)
        self._pieces: npt.NDArray[np.int64] = np.empty((ENTRIES_SIZE, 2), np.int64)
        self._chosen: npt.NDArray[np.int64] = np.zeros(MOST_CHOSEN, np.int64)
        self._records: npt.NDArray[np.uint8] = np.empty(RECORDS_SIZE, np.uint8)
        row[State.LINES], row[State.LINES_SIZE] = address_of(self._lines), len(self._lines)
        row[State.ENTRIES], row[State.LINE_PIECES] = address_of(self._entries), address_of(self._pieces)
        row[State.CHOSEN], row[State.RECORDS] = address_of(self._chosen), address_of(self._records)
        self._requests: npt.NDArray[np.uint8] = np.empty(REQUESTS_SIZE + 64, np.uint8)
        row[State.REQUESTS], row[State.REQUEST_TEXTS] = address_of(self._requests), _REQUEST_ADDRESS
        row[State.TEXTS], row[State.RECORDS_DELAY] = _TEXTS_ADDRESS, int(DELAY_S * 1e9)

    def open(self, number: int, descriptor: int, head: bytes) -> None:
        """Lets compiled code write to the socket of an application, which has taken all before.

        Args:
            head: see `router.records.applications.delivery_head`.
        """
        self._outlets[number] = _Outlet(descriptor, np.frombuffer(head, np.uint8))
        self._row[State.RECORD_ROOM] = max(self._row[State.RECORD_ROOM], RECORD_OVERHEAD + len(head))
        place = self._places.get(number)
        if place is None:
            # An application without a predicate may send.
            self._seen = -1
        else:
            self._connect(place, number)

    def shut(self, number: int) -> None:
        """Leaves the deliveries to an application to the core."""
        self._outlets.pop(number, None)
        place = self._places.get(number)
        if place is not None:
            self._connect(place, number)

    def address(self, number: int) -> int:
        """The address of the row of an application that is open; `prepare` may change it."""
        return address_of(self._apps) + 8 * APP_WIDTH * self._places[number]

    def prepare(self) -> None:
        """Lays out what has changed; before each call of compiled code."""
        if self._predicates.changes != self._seen:
            self._begin()
        if not self.ready:
            self._lay_out()
        self._row[State.APP_TABLE] = self._matcher.table

    def finish(self) -> None:
        """Hands over what compiled code has left."""
        state = self._state
        if state[_RECORDS_AT] and self.deliverer is not None:
            records = self._records[: state[_RECORDS_AT]].tobytes()
            state[_RECORDS_AT] = 0
            self.deliverer.recorded(records, state[_RECORDS_DUE] / 1e9 - DELAY_S)
        if state[_ENTRY_COUNT]:
            self._hand_over()
        if state[_REQUESTS_END]:
            data = self._requests[state[_REQUESTS_AT] : state[_REQUESTS_END]].tobytes()
            state[_REQUESTS_END] = 0
            place = (state[_REQUESTS_APP] - address_of(self._apps)) // (8 * APP_WIDTH)
            number = int(self._apps[place, APP_NUMBER])
            self._outlets.pop(number, None)
            if self.deliverer is not None:
                self.deliverer.requested(number, data)

    def _hand_over(self) -> None:
        numbers = self._apps[:, APP_NUMBER].tolist()
        first, lines = address_of(self._apps), address_of(self._lines)
        left: dict[int, tuple[bytearray, list[Waiting]]] = {}
        for entry in self._entries[: self._state[_ENTRY_COUNT]].tolist():
            number = numbers[(entry[ENTRY_APP] - first) // (8 * APP_WIDTH)]
            start, length = entry[ENTRY_AT] - lines, entry[ENTRY_LENGTH]
            text, deliveries = left.setdefault(number, (bytearray(), []))
            text += self._lines[start : start + length].tobytes()
            source = entry[ENTRY_SOURCE]
            deliveries.append(Waiting(length, None if source < 0 else source, entry[ENTRY_SEQ] % (1 << 64)))
        self._state[_ENTRY_COUNT] = self._state[_LINES_AT] = 0
        for number, (text, deliveries) in left.items():
            # Compiled code has left the application's row without a descriptor.
            self._outlets.pop(number, None)
            if self.deliverer is not None:
                self.deliverer.left(number, bytes(text), deliveries)

    def _begin(self) -> None:
        """Compares what the matcher has with the predicates."""
        self._seen, self.ready = self._predicates.changes, False
        predicates = self._predicates.by_application()
        if self._waiting:
            # Some predicates were given in part.
            self._waiting.clear()
            self._taken = {}
        for number in self._given.keys() | predicates.keys():
            predicate = predicates.get(number, NOTHING)
            if self._taken.get(number) is not predicate:
                self._compare(number, predicate)
        self._taken = dict(predicates)

    def _compare(self, number: int, predicate: Predicate) -> None:
        before = self._given.get(number, {})
        after = {id(filter_): filter_ for filter_ in predicate}
        self._waiting += ((number, False, before[which]) for which in before if which not in after)
        self._waiting += ((number, True, after[which]) for which in after if which not in before)

    def _give(self) -> None:
        """Gives the matcher a part; its last filter may exceed the bound."""
        changes: dict[int, tuple[list[Filter], list[Filter]]] = {}
        left = _PART
        while self._waiting and left > 0:
            number, comes, filter_ = self._waiting.popleft()
            changes.setdefault(number, ([], []))[comes].append(filter_)
            left -= 1 + (weight_of(filter_) // _WEIGHT if comes else 0)
        for number, (gone, added) in changes.items():
            given = self._given.setdefault(number, {})
            for filter_ in gone:
                del given[id(filter_)]
            given.update((id(filter_), filter_) for filter_ in added)
            self._matcher.change(number, gone, added)
            if not given:
                del self._given[number]

    def _lay_out(self) -> None:
        """Gives the matcher a part of what it lacks, and makes the rows."""
        row, matcher = self._row, self._matcher
        self._give()
        self.ready = not self._waiting
        predicates = self._predicates.by_application()
        numbers = [*predicates, *(number for number in self._outlets if number not in predicates)]
        dense = matcher.lay_out()
        self._apps = np.zeros((len(numbers), APP_WIDTH), np.int64)
        self._places = {number: place for place, number in enumerate(numbers)}
        for number, place in self._places.items():
            self._apps[place, [APP_NUMBER, APP_DENSE]] = number, dense.get(number, 0)
            self._connect(place, number)
        size = max(dense.values(), default=0) + 1
        self._flags = np.zeros((2, size), np.uint8)
        self._flags[0, 1:] = 1
        row[State.APPS], row[State.APP_COUNT] = address_of(self._apps), len(numbers)
        row[State.APP_OPEN], row[State.APP_MARK] = map(address_of, self._flags)

    def _connect(self, place: int, number: int) -> None:
        outlet = self._outlets.get(number)
        app = self._apps[place]
        if outlet is None:
            app[APP_DESCRIPTOR] = -1
            return
        app[APP_DESCRIPTOR], app[APP_HEAD_LENGTH] = outlet.descriptor, len(outlet.head)
        app[APP_HEAD] = address_of(outlet.head)
