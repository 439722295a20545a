"""Frames in: Ethernet frames are counted, checked for their sender, reassembled and decoded.

Reassembly takes bounded memory. Fragments carry their index, not an offset, and each repeats the header.
`frame_key` identifies a partial frame, for routers and for the readers of captures. Repeated fragments are
harmless. Fragments of one frame that contradict each other destroy it, as overlapping IPv6 fragments do (RFC
5722): a receiver cannot know which fragment is right.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

from router.wire.codec import WholeFrame
from router.wire.format import DecodeReason, Flags
from router.wire.frames import Frame
from router.wire.header import (
    ETHERNET_HEADER_LENGTH,
    HEADER_LENGTH,
    TYPE_NAMES,
    UNDECODABLE,
    DecodeError,
    Header,
    decode_header,
    sender_of,
    signature_of,
)

#: Bytes that a stored fragment costs beside its own (dictionary slot and object headers), roughly.
FRAGMENT_OVERHEAD = 200
#: A router may pause for seconds between two fragments: its device is full, or it handles a long predicate.
TIMEOUT_S = 30.0
Key = tuple[Hashable, int, int, int]


def frame_key(sender: Hashable, header: Header) -> Key:
    """Identifies the frame that a fragment is of.

    The Ethernet destination is no part of it: a frame that is sent again goes to fewer neighbours.

    Args:
        sender: the neighbour that sent the fragment, as its node or its Ethernet address.
    """
    return sender, header.type, header.issuer, header.seq


@dataclass(slots=True)
class _Partial:
    header: Header
    deadline: float = 0.0
    chunks: dict[int, bytes] = field(default_factory=dict)
    length: int = 0

    @property
    def cost(self) -> int:
        return self.length + FRAGMENT_OVERHEAD * len(self.chunks)


@dataclass(slots=True)
class _Held:
    """The partial frames of one sender, in order of arrival of the last new fragment."""

    keys: dict[Key, None] = field(default_factory=dict)
    cost: int = 0


class Reassembler:
    """Collects the fragments of frames until they are whole.

    A partial frame is given up `timeout_s` seconds after the last fragment that was new. When a new fragment
    would exceed `max_bytes` (stored bytes and their overhead) or `max_partial` (frames), frames of the sender
    that holds most make room for it, first those that have waited longest for a new fragment: a sender that
    floods loses its own frames.

    Attributes:
        evicted: partial frames given up to make room, so far.
        expired: partial frames given up after the timeout, so far.
        used_bytes: memory charged to partial frames; never above `max_bytes`.
    """

    def __init__(
        self, timeout_s: float = TIMEOUT_S, max_bytes: int = 64 * 1024 * 1024, max_partial: int = 1024
    ) -> None:
        self.timeout_s = timeout_s
        self.max_bytes = max_bytes
        self.max_partial = max_partial
        self.evicted = 0
        self.expired = 0
        self.used_bytes = 0
        # In order of arrival of the last new fragment, hence of deadline: dictionaries keep insertion order.
        self._partial: dict[Key, _Partial] = {}
        self._held: dict[Hashable, _Held] = {}

    def __len__(self) -> int:
        """The number of partial frames held."""
        return len(self._partial)

    def held(self, key: Key) -> frozenset[int]:
        """The indices of the fragments held of a frame."""
        partial = self._partial.get(key)
        return frozenset(partial.chunks) if partial else frozenset()

    def add(self, sender: Hashable, payload: bytes, now: float) -> tuple[Header, bytes] | None:
        """Take one Ethernet payload; return header and body if it makes a frame whole.

        The header returned for a fragmented frame is that of the fragment that completed it.

        Args:
            sender: the node or address that sent the payload; fragments of different senders do not mix.
            payload: header and what follows it, padding included.
            now: seconds on a clock that never goes back.

        Raises:
            DecodeError: the header breaks a rule, the frame could never fit into `max_bytes` (reason
                `too_large`), or the fragment contradicts an earlier one of the same frame (reason
                `bad_fragment`), which is then given up.
        """
        return self.add_decoded(sender, decode_header(payload), payload, now)

    def add_decoded(
        self, sender: Hashable, header: Header, payload: bytes, now: float
    ) -> tuple[Header, bytes] | None:
        """As `add`, for a caller that has decoded the header."""
        chunk = payload[HEADER_LENGTH : HEADER_LENGTH + header.payload_length]
        if header.fragment_count == 1:
            return header, chunk
        if header.total_length + FRAGMENT_OVERHEAD * header.fragment_count > self.max_bytes:
            raise DecodeError(
                DecodeReason.TOO_LARGE,
                f"{_describe(header)} has {header.total_length} bytes in {header.fragment_count} fragments; "
                f"reassembly may hold {self.max_bytes} in all",
            )
        key = frame_key(sender, header)
        partial = self._partial.get(key)
        if partial is not None and partial.deadline <= now:
            self.expire(now)
            partial = None
        if partial is None:
            partial = _Partial(header)
        else:
            if _common(header) != _common(partial.header):
                self._give_up(key)
                raise DecodeError(
                    DecodeReason.BAD_FRAGMENT, f"headers of the fragments of {_describe(header)} differ"
                )
            known = partial.chunks.get(header.fragment_index)
            if known == chunk:
                return None
            if known is not None:
                self._give_up(key)
                raise DecodeError(
                    DecodeReason.BAD_FRAGMENT,
                    f"two fragments {header.fragment_index} of {_describe(header)} differ",
                )
        return self._store(key, partial, header, chunk, now)

    def _store(
        self, key: Key, partial: _Partial, header: Header, chunk: bytes, now: float
    ) -> tuple[Header, bytes] | None:
        length = partial.length + len(chunk)
        missing = header.fragment_count - len(partial.chunks) - 1
        # Every fragment still missing has at least one byte.
        if length + missing > header.total_length or (not missing and length < header.total_length):
            self._give_up(key)
            raise DecodeError(
                DecodeReason.BAD_FRAGMENT,
                f"fragments of {_describe(header)} do not add up to {header.total_length} bytes",
            )
        cost = len(chunk) + FRAGMENT_OVERHEAD
        if not self._make_room(key, cost):
            return None
        held = self._held.setdefault(key[0], _Held())
        self._partial.pop(key, None)
        held.keys.pop(key, None)
        self._partial[key], held.keys[key] = partial, None
        held.cost += cost
        partial.deadline = now + self.timeout_s
        partial.chunks[header.fragment_index] = chunk
        partial.length = length
        self.used_bytes += cost
        if missing:
            return None
        self._give_up(key)
        return header, b"".join(partial.chunks[index] for index in range(header.fragment_count))

    def _make_room(self, key: Key, cost: int) -> bool:
        """Gives up partial frames until a fragment of `key` fits; False: `key` itself had to be given up."""
        allowed = self.max_partial if key in self._partial else self.max_partial - 1
        while (full := self.used_bytes + cost > self.max_bytes) or len(self._partial) > allowed:
            held = Counter({key[0]: cost if full else 1})
            for sender, each in self._held.items():
                held[sender] += each.cost if full else len(each.keys)
            ((most, _),) = held.most_common(1)
            oldest = next((other for other in self._held.get(most, _Held()).keys if other != key), key)
            self._give_up(oldest)
            self.evicted += 1
            if oldest == key:
                return False
        return True

    def _give_up(self, key: Key) -> None:
        partial = self._partial.pop(key, None)
        if partial is None:
            return
        self.used_bytes -= partial.cost
        held = self._held[key[0]]
        held.cost -= partial.cost
        del held.keys[key]
        if not held.keys:
            del self._held[key[0]]

    def expire(self, now: float) -> None:
        """Gives up the partial frames whose timeout has passed."""
        # In any order: the times of captures go back where a clock was set or captures were joined.
        for key in [key for key, partial in self._partial.items() if partial.deadline <= now]:
            self._give_up(key)
            self.expired += 1

    def latest(self) -> float | None:
        """When the last new fragment of those held came; None if no frame is partial."""
        for partial in reversed(self._partial.values()):
            return partial.deadline - self.timeout_s
        return None

    def next_deadline(self) -> float | None:
        """When `expire` next has something to do; None if no frame is partial."""
        for partial in self._partial.values():
            return partial.deadline
        return None


def _common(header: Header) -> tuple[int, int, int, int, int]:
    """The header fields, beside the key, that the fragments of one frame have in common."""
    return header.flags, header.hop_limit, header.epoch, header.total_length, header.fragment_count


def _describe(header: Header) -> str:
    return f"{header.type.name} {header.issuer}/{header.seq}"


#: Reason for dropping a frame with the source address of nobody who may have sent it.
BAD_SOURCE = "bad_source"
_TAGGED = int(Flags.TAGGED)


class RefusedError(Exception):
    """A frame that is dropped before it is read; the text is the reason."""


class FrameIntake:
    """Takes Ethernet frames and returns protocol frames; drops and counts all others.

    Args:
        read: makes the frame of a header, its whole body and its signature: `codec.read_frame` or
            `codec.forwarded_frame`.
        log: called with the reason and more fields for each dropped Ethernet frame.
        verify: `router.security.guard.Guard.open`, of each frame before more of it is read than the header;
            None: all are taken.

    Attributes:
        frames: Ethernet frames by type, `UNDECODABLE` for a header that breaks a rule. Each fragment is one.
        bytes: their length as on the wire, Ethernet header included, check sequence excluded.
        dropped: dropped Ethernet frames by reason.
        reassembler: the frames that are not whole.
    """

    def __init__(
        self,
        read: Callable[[Header, bytes, bytes], Frame],
        log: Callable[[str, dict[str, Any]], None] = lambda _reason, _fields: None,
        verify: Callable[[bytes, Header], bytes] | None = None,
    ) -> None:
        self.frames: Counter[str] = Counter()
        self.bytes = 0
        self.dropped: Counter[str] = Counter()
        self.reassembler = Reassembler()
        self._read = read
        self._log = log
        self._verify = verify

    def take(
        self, data: bytes, now: float, expected: int | None = None
    ) -> tuple[int, Frame, WholeFrame] | None:
        """The protocol frame that an Ethernet frame makes whole, if any.

        Args:
            data: from the destination address on.
            now: seconds on a clock that never goes back.
            expected: the only node that can have sent the frame; None: any node, or the controller.

        Returns:
            The sender (a node, or `header.CONTROLLER`), the frame, and its wire form, with the header of
            the Ethernet frame that completed it.
        """
        self.bytes += len(data)
        payload = data[ETHERNET_HEADER_LENGTH:]
        type_ = UNDECODABLE
        try:
            header = decode_header(payload)
            type_ = TYPE_NAMES[header.type]
            sender = sender_of(data)
            if sender is None or (expected is not None and sender != expected):
                self._drop(BAD_SOURCE, data, type=type_)
                return None
            if self._verify is not None:
                payload = self._verify(data, header)
                header = header._replace(flags=header.flags & ~_TAGGED)
            whole = self.reassembler.add_decoded(sender, header, payload, now)
            if whole is None:
                return None
            signature = signature_of(header, payload)
            frame = self._read(*whole, signature)
        except RefusedError as refused:
            self._drop(str(refused), data, type=type_)
            return None
        except DecodeError as error:
            self._drop(error.reason.value, data, error=str(error))
            return None
        finally:
            self.frames[type_] += 1
        # A plain tuple: a named one takes as long to make as the header does to decode.
        return sender, frame, (payload[:HEADER_LENGTH], whole[1], signature)

    def _drop(self, reason: str, data: bytes, **fields: str) -> None:
        self.dropped[reason] += 1
        self._log(reason, {"source": data[6:12].hex(":"), **fields})
