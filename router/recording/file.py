"""The file of a recording: the parameters of a router, its events, and the actions that answered them.

::

    file    = "CBCB-REC" version:u8 length:u32 origin (JSON) { record }
    record  = type:u8 length:u32 content                                           little-endian throughout
    content = event:  at:f64 (the router's clock, experiment seconds), content of the event   type: `events`
            | CLOCK:  at:f64, wall clock:u64 (ns), rate:f64 (of the router's clock, per wall second)
                      the two clocks at one moment; about every second, and when the rate has changed
            | ACTIONS: the answer to the event before; missing if that event ended the router
            | END:    empty                             the router ended in order

A router writes its records to memory that is mapped to the file: however it ends, what it wrote can be read.
A record of type 0 is the room that is left behind them. The type of a record is written last: if other bytes
of that room are not 0, the router was killed while it wrote a record, and the record does not count.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import random
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from router.clock.clock import ExperimentClock, Reading
from router.protocol.core.layers import make_router
from router.protocol.core.router import Layer
from router.protocol.events import Action, Event
from router.protocol.options import RouterOptions, content_of
from router.recording import ACTIONS, EVENT, FRAME_RECEIVED, RECORD, TIME_BYTES
from router.recording.actions import encode_actions
from router.recording.events import decode_event, encode_event, is_event
from router.records.forms import parse_settings
from router.records.json_file import to_json
from router.wire.codec import WholeFrame

_MAGIC = b"CBCB-REC"
_VERSION = 4
_HEAD = struct.Struct("<8sBI")
_CLOCK_CONTENT = struct.Struct("<dQd")
_F64 = struct.Struct("<d")
_CLOCK, _END = 64, 66
#: Types of records but those of events.
_TYPES = frozenset({_CLOCK, ACTIONS, _END})

#: Wall seconds between two readings of both clocks: the wall clock may be slewed.
_CLOCK_INTERVAL_S = 1.0

#: Bytes that are allocated and mapped at a time.
_WINDOW = 256 * 1024
_PAGE = mmap.ALLOCATIONGRANULARITY


class RecordingError(ValueError):
    """A recording is missing, or its file is not a valid recording; the message names the file."""


class _MappedFile:
    """Appends to a file without a system call for each record: its end is mapped into memory.

    What was appended survives the end of the process, however it ends; the file then has zeros behind it, up
    to the end of its last window. `close` cuts them off. The bytes of one `append` begin to count when the
    first of them is not 0: it is written last.

    Args:
        path: the file; an older file is replaced.

    Raises:
        OSError: the file cannot be made, or there is no room for its first window.
    """

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        self._start = self._at = self._size = self._address = 0
        self._window: mmap.mmap | None = None
        try:
            self._grow(1)
        except BaseException:
            os.close(self._file)
            raise

    def append(self, data: bytes | bytearray | memoryview) -> None:
        """Appends bytes; their first is not 0.

        Raises:
            OSError: the file system has no room.
        """
        at, end = self._at, self._at + len(data)
        if end > self._size:
            self._grow(len(data))
            at, end = self._at, self._at + len(data)
        assert self._window is not None
        self._window[at + 1 : end] = data[1:]
        self._window[at] = data[0]
        self._at = end

    def reserve(self, length: int) -> tuple[int, int]:
        """Makes room for `length` bytes, which the caller writes to memory; then `appended`.

        Returns:
            The address behind what was appended, and the bytes of room there, valid until the next `append`.

        Raises:
            OSError: the file system has no room.
        """
        if self._at + length > self._size:
            self._grow(length)
        return self._address + self._at, self._size - self._at

    def reserved(self, start: int, end: int) -> bytes:
        """Bytes of that room."""
        assert self._window is not None
        return self._window[self._at + start : self._at + end]

    def appended(self, length: int) -> None:
        """Counts bytes that the caller has written."""
        self._at += length

    def close(self, *, cut: bool = True) -> None:
        """Cuts the file off behind what was appended, unless a child of this process continues it."""
        if self._window is not None:
            self._window.close()
            self._window = None
        try:
            if cut:
                os.ftruncate(self._file, self._start + self._at)
        finally:
            os.close(self._file)

    def _grow(self, length: int) -> None:
        """Maps a window with room for `length` bytes behind what was appended."""
        place = self._start + self._at
        start = place // _PAGE * _PAGE
        size = max(_WINDOW, -(-(place - start + length) // _PAGE) * _PAGE)
        # Room for all of it now: a page that cannot be written later would end the process (SIGBUS).
        os.posix_fallocate(self._file, start, size)
        window = mmap.mmap(self._file, size, offset=start)
        if self._window is not None:
            self._window.close()
        # The address stays as long as the window does; an object that refers to it would keep it open.
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(window))
        self._window, self._start, self._at, self._size = window, start, place - start, size


@dataclass(frozen=True, slots=True)
class Origin:
    """The parameters of a protocol core, which with its events determine its actions.

    Attributes:
        node: identifier of the router's node.
        options: the router's options, with the names of scheme, service and covering.
        matcher: a name of `router.matching.engines`.
        seed: seed of its jitter, together with `node`.
        incarnation: see `Router`.
        public_keys: those that frames are verified with (`router.security.signatures.PublicKeys`), in hex;
            None: frames need no signature.
        floor: see `router.protocol.core.layers.Verifier`.
    """

    node: int
    options: RouterOptions
    matcher: str
    seed: int
    incarnation: int
    public_keys: str | None = None
    floor: int = 0

    def router(self) -> Layer:
        """Returns a new router.

        Raises:
            ValueError: `matcher` is not the name of a matcher, the incarnation is out of range, or the public
                keys have another form.
        """
        jitter = random.Random(f"{self.seed}/{self.node}")
        content = content_of(self.options.covering, self.options.privacy)
        verifier = None
        if self.public_keys is not None:
            from router.security.signatures import PublicKeys  # it comes with cryptography

            verifier = PublicKeys(bytes.fromhex(self.public_keys), self.floor)
        matcher = content.matcher(self.matcher)
        return make_router(self.node, self.options, matcher, self.incarnation, jitter, verifier)


class Recorder:
    """Writes the recording of one router.

    Args:
        path: the file; an older file is replaced.
        origin: the router's parameters.
        clock: the router's clock; None: wall seconds.

    Attributes:
        clock_due: when the next event needs a reading of both clocks before it; seconds of the router's
            clock.

    Raises:
        OSError: the file cannot be made or written.
    """

    def __init__(self, path: Path, origin: Origin, clock: ExperimentClock | None = None) -> None:
        self._file = _MappedFile(path)
        self._clock = ExperimentClock() if clock is None else clock
        described = to_json(origin)
        self._file.append(_HEAD.pack(_MAGIC, _VERSION, len(described)) + described)
        self._tell_time()

    def event(self, event: Event, at: float, wire: WholeFrame | None = None) -> None:
        """Records an event.

        To be called before the router handles it.

        Args:
            at: the time given to the router, experiment seconds.
            wire: its frame as received, if the event has a frame and its bytes are known.

        Raises:
            OSError: the file cannot be written.
        """
        if at >= self.clock_due or self._clock.rate != self._rate:
            self._tell_time()
        code, content = encode_event(event, wire)
        self._file.append(EVENT.pack(code, TIME_BYTES + len(content), at) + content)

    def actions(self, event: Event, actions: Iterable[Action]) -> None:
        """Records the actions that answered the last event.

        Raises OSError as `event`.
        """
        content = encode_actions(event, actions)
        self._file.append(RECORD.pack(ACTIONS, len(content)) + content)

    def reserve(self, length: int, at: float) -> tuple[int, int]:
        """Makes room for records that compiled code writes (`router.forwarding`), in this format.

        Args:
            length: bytes.
            at: the time of the first of them.

        Returns:
            The address of the room and its bytes, valid until the next call of another method.

        Raises OSError as `event`.
        """
        if at >= self.clock_due or self._clock.rate != self._rate:
            self._tell_time()
        return self._file.reserve(length)

    def written(self, length: int) -> None:
        """Counts bytes of records that compiled code has written to that room."""
        self._file.appended(length)

    def answer(self, start: int, answer: int, end: int, more: bytes) -> None:
        """Completes the last records that compiled code has written: an event and the answer to it.

        Args:
            start, answer, end: offsets in that room: of the event, of the answer, and behind it.
            more: the actions behind those of compiled code (`router.recording.actions`).

        Raises OSError as `event`.
        """
        event = self._file.reserved(start + 1, answer)
        actions = self._file.reserved(answer + RECORD.size, end) + more
        self._file.appended(start)
        self._file.append(b"%c%b%b%b" % (FRAME_RECEIVED, event, RECORD.pack(ACTIONS, len(actions)), actions))

    def end(self) -> None:
        """Records that the router ended in order.

        Raises OSError as `event`.
        """
        self._file.append(RECORD.pack(_END, 0))

    def close(self) -> None:
        self._file.close()

    def leave(self) -> None:
        """Gives up the file, which a forked child continues."""
        self._file.close(cut=False)

    def _tell_time(self) -> None:
        reading = self._clock.reading()
        self._rate = reading.rate
        self.clock_due = reading.experiment_s + reading.rate * _CLOCK_INTERVAL_S
        content = _CLOCK_CONTENT.pack(*reading)
        self._file.append(RECORD.pack(_CLOCK, len(content)) + content)


@dataclass(frozen=True, slots=True)
class RecordedEvent:
    """An event of a recording and its answer.

    Attributes:
        number: number of the event, from 1.
        at: the router's clock, experiment seconds.
        t_ns: the wall clock, ns since 1970.
        event: the event.
        actions: the answer (`router.recording.actions.encode_actions`); None: the recording ends before it.
    """

    number: int
    at: float
    t_ns: int
    event: Event
    actions: bytes | None


class Recording:
    """Reads a recording.

    Attributes:
        path: the file.
        origin: the router's parameters.
        cut: once `inputs` is exhausted: how the recording was cut off, in words; None if the router ended in
            order.

    Raises:
        RecordingError: the file cannot be read, is no recording, or is a recording of another version.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.cut: str | None = None
        try:
            with path.open("rb") as file:
                self.origin = self._read_head(file)
                self._start = file.tell()
        except OSError as error:
            raise RecordingError(f"{path}: {error.strerror or error}") from error

    def inputs(self) -> Iterator[RecordedEvent]:
        """Yields the events of the file in order.

        Raises:
            RecordingError: a record breaks the format (names its place in the file).
        """
        self.cut = "the router did not end in order"
        event: tuple[int, float, int, Event] | None = None
        number, clocks, latest_ns = 0, Reading(0.0, 0, 1.0), 0
        with self.path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            place = file.seek(self._start)
            while record := self._read_record(file, size):
                code, content = record
                self._check_order(place, code, event is not None)
                if code == ACTIONS and event is not None:
                    yield RecordedEvent(*event, content)
                    event = None
                elif code == _END:
                    self.cut = None
                else:
                    try:
                        if code == _CLOCK:
                            clocks = Reading(*_CLOCK_CONTENT.unpack(content))
                        else:
                            number += 1
                            (at,) = _F64.unpack_from(content)
                            received = decode_event(code, content[8:])
                            # Events that the next CLOCK record follows may be of the next rate already.
                            latest_ns = max(latest_ns, _wall_ns(clocks, at))
                            event = (number, at, latest_ns, received)
                    except (ValueError, ArithmeticError, struct.error) as error:
                        raise RecordingError(f"{self.path}: byte {place}: {error}") from error
                place = file.tell()
        if event is not None:
            yield RecordedEvent(*event, None)

    def wall_clocks(self) -> Iterator[int]:
        """Yields where in the file readings of the wall clock stand."""
        with self.path.open("rb") as file:
            size, _ = file.seek(0, os.SEEK_END), file.seek(self._start)
            while record := self._read_record(file, size):
                if record[0] == _CLOCK:
                    yield file.tell() - _CLOCK_CONTENT.size + _F64.size

    def _check_order(self, place: int, code: int, unanswered: bool) -> None:
        """Raises RecordingError for a record out of order: each event is answered before the next."""
        if not is_event(code) and code not in _TYPES:
            problem = f"no record is of type {code}"
        elif self.cut is None and code != _CLOCK:
            problem = "a record after the end"
        elif code == ACTIONS and not unanswered:
            problem = "an answer to no event"
        elif (code == _END or is_event(code)) and unanswered:
            problem = "the event before has no answer"
        else:
            return
        raise RecordingError(f"{self.path}: byte {place}: {problem}")

    def _read_head(self, file: IO[bytes]) -> Origin:
        head = file.read(_HEAD.size)
        if len(head) < _HEAD.size or not head.startswith(_MAGIC):
            raise RecordingError(f"{self.path}: not the recording of a router")
        _, version, length = _HEAD.unpack(head)
        if version != _VERSION:
            raise RecordingError(f"{self.path}: a recording of version {version}; expected {_VERSION}")
        try:
            return parse_settings(Origin, file.read(length))
        except ValueError as error:
            raise RecordingError(f"{self.path}: parameters of the router: {error}") from error

    def _read_record(self, file: IO[bytes], size: int) -> tuple[int, bytes] | None:
        """Returns type and content of the next record, or None if no whole record is left."""
        head = file.read(RECORD.size)
        if not head:
            return None
        if head[0] == 0:
            file.seek(1 - len(head), os.SEEK_CUR)
            if any(chunk.strip(b"\0") for chunk in iter(lambda: file.read(65_536), b"")):
                self.cut = "the router was killed while it wrote a record, which does not count"
            return None
        if len(head) == RECORD.size:
            code, length = RECORD.unpack(head)
            if length <= size - file.tell():
                return code, file.read(length)
        left = size - file.tell() + len(head)
        self.cut = f"its last {left} bytes are part of a record that was not finished"
        return None


def _wall_ns(clocks: Reading, at: float) -> int:
    """The wall clock (ns) at a time of the router's clock, from the last reading of both."""
    return clocks.wall_ns + round((at - clocks.experiment_s) / clocks.rate * 1e9)
