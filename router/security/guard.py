"""Tags on the frames of one hop: set by the sender, verified by receivers (docs/reference/wire-format.md).

A frame goes to several neighbours at once and has a tag for each, under the key of the pair. The frame is
hashed once; a tag is the HMAC of the hash. Both are those of OpenSSL.
"""

from __future__ import annotations

import hmac
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from hashlib import sha256
from pathlib import Path

from router.security.pairs import PairKeys, Windows
from router.security.signatures import Signer, read_signer
from router.wire.authentication import HEAD, marked, trailer_length, unmarked
from router.wire.codec import fragment
from router.wire.format import DATA, TAG_BYTES, Flags
from router.wire.frames import COUNTER_BITS, Frame
from router.wire.header import (
    CONTROLLER,
    CONTROLLER_SOURCE,
    ETHERNET_HEADER_LENGTH as ETHERNET,
    Header,
    length_with_signature,
    node_of,
)
from router.wire.intake import RefusedError

_SOURCE = slice(6, 12)
#: Names of senders that are not expected and are counted apart; frames under further names count together. As
#: many windows there may be before a sender that is not expected gets none.
_STRANGERS = 256
#: What further senders are counted as.
OTHERS = "others"
CONTROLLER_NAME = "controller"


class Refusal(StrEnum):
    """Why a frame was dropped before it was read."""

    #: It has no tags, or its trailer is cut short.
    UNTAGGED = "untagged"
    #: Its tags are under a network key that this receiver lacks.
    UNKNOWN_KEY = "unknown_key"
    #: None of its tags is that of the pair: it is forged, was changed, or is for others.
    BAD_TAG = "bad_tag"
    #: It came before, or is older than the window.
    REPLAYED = "replayed"
    #: Its tag stands, but its sender is no neighbour, and there are too many windows to give it one.
    UNKNOWN_SENDER = "unknown_sender"


class Guard:
    """Tags what one router, or the controller, sends, and verifies what it receives.

    Messages, publications among them, and all other frames are two streams with counters of their own: they
    wait in queues of their own and overtake each other.

    Args:
        own: its Ethernet source address.
        keys: shared with the others.
        incarnation: 32 bits, greater than at any earlier start under the keys.
        windows: of the streams that it receives; issuers of this run have begun above their floor, too.
        signer: signs what it issues; None: frames have no signatures.

    Attributes:
        neighbours: returns the nodes that may send to this receiver: whatever names are forged, they count
            apart.
    """

    def __init__(
        self, own: bytes, keys: PairKeys, incarnation: int, windows: Windows, signer: Signer | None = None
    ) -> None:
        #: Dropped frames by the name of the sender in which they came, and by reason.
        self._refused: dict[str, Counter[Refusal]] = {}
        self._strangers = 0
        self.neighbours: Callable[[], Iterable[int]] = tuple
        self._own = own
        self._keys = keys
        self.windows = windows
        self._signer = signer
        self._counters = [incarnation << COUNTER_BITS] * 2

    def signed(self, frame: Frame) -> Frame:
        """The frame with the signature of this sender, if it issues the frame and the mode has signatures.

        Raises:
            ValueError: the frame is outside the format.
        """
        return frame if self._signer is None else self._signer.signed(frame)

    def frames(self, head: bytes, frame: Frame, receivers: Sequence[bytes], mtu: int) -> list[bytes]:
        """The Ethernet frames that carry a frame, with a tag for each receiver, in the order of sending.

        Args:
            head, receivers: as `seal`.
            mtu: bytes of an Ethernet payload.

        Raises:
            ValueError: the frame is outside the format (`router.wire.codec.fragment`).
        """
        is_message = frame.type in DATA
        payloads = fragment(frame, mtu - trailer_length(len(receivers)))
        return [self.seal(head, each, receivers, message=is_message) for each in payloads]

    def seal(self, head: bytes, payload: bytes, receivers: Sequence[bytes], *, message: bool) -> bytes:
        """The Ethernet frame with its tags.

        Args:
            head: the Ethernet header, from the source address of this sender.
            payload: header, body, and perhaps a signature.
            receivers: the source addresses of the routers, or of the controller, that get the frame.
            message: whether the type of the frame is one of `DATA`.
        """
        self._counters[message] += 1
        self._keys.refresh()
        pair, key_id = self._keys.pair, self._keys.sending
        covered = head + marked(payload) + HEAD.pack(key_id, self._counters[message], len(receivers))
        digest = sha256(covered).digest()
        return covered + b"".join(_tag(pair(key_id, receiver), digest) for receiver in receivers)

    def open(self, data: bytes, header: Header) -> bytes:
        """The payload of an Ethernet frame for which the tag of the pair stands, without trailer and padding.

        Raises:
            RefusedError: there is no such tag, or the frame is a replay.
        """
        refusal, end = self._verify(data, header)
        if refusal is not None:
            self._count(data[_SOURCE], refusal)
            raise RefusedError(refusal.value)
        return unmarked(data[ETHERNET:end])

    def _verify(self, data: bytes, header: Header) -> tuple[Refusal | None, int]:
        """Why a frame is refused, or None; and the end of its body and signature."""
        end = ETHERNET + length_with_signature(header)
        tags = end + HEAD.size
        if not header.flags & Flags.TAGGED or len(data) < tags:
            return Refusal.UNTAGGED, end
        key_id, counter, count = HEAD.unpack_from(data, end)
        if len(data) < tags + TAG_BYTES * count:
            return Refusal.UNTAGGED, end
        sender = data[_SOURCE]
        self._keys.refresh()
        key = self._keys.pair(key_id, sender)
        if key is None:
            return Refusal.UNKNOWN_KEY, end
        tag = _tag(key, sha256(data[:tags]).digest())
        places = range(tags, tags + TAG_BYTES * count, TAG_BYTES)
        if not _contains((data[at : at + TAG_BYTES] for at in places), tag):
            return Refusal.BAD_TAG, end
        stream = header.type in DATA
        # Who has the network key can invent addresses; a router without a table knows no neighbours so far.
        if (
            not self.windows.has_room(sender, stream, _STRANGERS)
            and sender != CONTROLLER_SOURCE
            and node_of(sender) not in {*self.neighbours()}
        ):
            return Refusal.UNKNOWN_SENDER, end
        if not self.windows.accept(sender, stream, counter):
            return Refusal.REPLAYED, end
        return None, end

    def refused_by_sender(self) -> dict[str, dict[str, int]]:
        """The dropped frames by the node in whose name they came, as text, and by reason."""
        return {
            name: {reason.value: count for reason, count in sorted(counts.items())}
            for name, counts in sorted(self._refused.items())
        }

    def _count(self, source: bytes, refusal: Refusal) -> None:
        node = node_of(source)
        name = CONTROLLER_NAME if node is None else str(node)
        if name not in self._refused and node is not None and node not in self.neighbours():
            name = name if self._strangers < _STRANGERS else OTHERS
            self._strangers += name != OTHERS
        self._refused.setdefault(name, Counter())[refusal] += 1


def make_guard(
    own: bytes, keys: Path, incarnation: int, windows: Path | None, signing_keys: Path | None
) -> Guard:
    """The guard of a router or of the controller.

    Args:
        own: its Ethernet source address.
        keys: file of the network keys.
        incarnation: as `Guard`. All senders of a network have this one or a greater one: frames of an earlier
            run under the same keys are replays.
        windows: file of its replay windows; None: they are in memory alone.
        signing_keys: folder with its signing key; None: it does not sign.

    Raises:
        KeyFileError: a key file cannot be used.
        OSError: the file of windows cannot be used.
        ValueError: it has another form.
    """
    node = node_of(own)
    signer = None if signing_keys is None else read_signer(signing_keys, CONTROLLER if node is None else node)
    pairs = PairKeys(keys, own)
    return Guard(own, pairs, incarnation, Windows(windows, incarnation << COUNTER_BITS), signer)


def _tag(key: bytes | None, digest: bytes) -> bytes:
    assert key is not None
    return hmac.digest(key, digest, "sha256")[:TAG_BYTES]


def _contains(tags: Iterable[bytes], tag: bytes) -> bool:
    """Whether a tag is among others; all are compared, each in the same time."""
    found = False
    for each in tags:
        found |= hmac.compare_digest(each, tag)
    return found
