"""Members: sealed content, replay, false positives by cause."""

from __future__ import annotations

import random

import pytest
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from router.predicates import Message
from router.predicates.encoded import BloomMessage
from router.predicates.parser import parse_predicate
from router.privacy import EncodingParameters, KeyRing
from router.privacy.member import Discard, Member, Sealer, derived
from router.wire.authentication import WINDOW
from router.wire.message import encode_message
from tests.support.promises import hold

RING = KeyRing.new(random_bytes=random.Random(5).randbytes)
CONTENT = Message({"dest": "ORD", "price": 300, "weight": -0.0, "urgent": True})


def pair() -> tuple[Member, Member]:
    sender, receiver = Member(RING), Member(RING)
    receiver.predicate = parse_predicate("price < 400")
    return sender, receiver


def changed(message: BloomMessage, **fields: object) -> BloomMessage:
    values = {"suite": message.suite, "bits": message.bits, "sealed": message.sealed} | fields
    return BloomMessage(**values)  # type: ignore[arg-type]


def test_a_member_reads_what_another_sent() -> None:
    sender, receiver = pair()
    opened = receiver.open(sender.message(CONTENT))
    assert opened == CONTENT
    assert repr(opened) == repr(CONTENT)
    assert receiver.encode(receiver.predicate).matches(sender.message(CONTENT))


def test_the_seal_is_that_of_the_specification() -> None:
    """ChaCha20-Poly1305 under HKDF(secret, client), nonce client and counter, associated KEY and BLOOM."""
    sender = Member(RING, rng=random.Random(1))
    message = sender.message(CONTENT)
    client, counter = message.sealed[:4], message.sealed[4:12]
    assert sender.message(CONTENT).sealed[4:12] == (int.from_bytes(counter, "big") + 1).to_bytes(8, "big")
    key = derived(RING.keys[0].secret, f"content {client.hex()}".encode())
    head = RING.keys[0].key_id.to_bytes(4, "big") + bytes([2, 0, 8, 1])
    plain = ChaCha20Poly1305(key).decrypt(
        message.sealed[:12], message.sealed[12:], head + message.suite.row(message.bits)
    )
    assert plain == encode_message(CONTENT)


@pytest.mark.attack("changed content")
def test_what_was_changed_is_counted_and_never_delivered() -> None:
    sender, receiver = pair()
    message = sender.message(CONTENT)
    flipped = bytes([message.sealed[-1] ^ 1])
    forged = (
        changed(message, sealed=message.sealed[:-1] + flipped),
        changed(message, sealed=message.sealed[:12]),
        changed(message, sealed=bytes(12) + message.sealed[12:]),
        changed(message, bits=message.bits | message.bits << 1 & (1 << 512) - 1),
        changed(message, sealed=b""),
    )
    assert [receiver.open(each) for each in forged] == 5 * [Discard.NOT_AUTHENTIC]
    for mode in ("off", "mac", "signed"):
        hold("changed content", "insider", mode, False, [Discard.NOT_AUTHENTIC])
    # None of them moved the window.
    assert receiver.open(message) == CONTENT


@pytest.mark.attack("repeated content")
def test_a_message_is_accepted_once() -> None:
    sender, receiver = pair()
    messages = [sender.message(CONTENT) for _ in range(WINDOW + 2)]
    assert receiver.open(messages[5]) == CONTENT
    assert receiver.open(messages[3]) == CONTENT
    assert receiver.open(messages[3]) is Discard.REPLAYED
    assert receiver.open(messages[-1]) == CONTENT
    assert receiver.open(messages[5]) is Discard.REPLAYED
    for mode in ("off", "mac", "signed"):
        hold("repeated content", "insider", mode, False, [Discard.REPLAYED])
    assert receiver.open(messages[1]) is Discard.REPLAYED  # below the window
    assert receiver.open(messages[2]) == CONTENT
    # Another client has a window of its own.
    assert receiver.open(Member(RING).message(CONTENT)) == CONTENT


def test_another_key_is_unknown() -> None:
    _, receiver = pair()
    stranger = Member(KeyRing.new())
    assert receiver.open(stranger.message(CONTENT)) is Discard.UNKNOWN_KEY
    assert not receiver.encode(receiver.predicate).matches(stranger.message(CONTENT))


@pytest.mark.parametrize(
    ("predicate", "cause"),
    [('price < 200 and dest = "ORD"', Discard.OPERATOR), ('dest = "SFO"', Discard.STALE)],
)
def test_a_false_positive_has_a_cause(predicate: str, cause: Discard) -> None:
    sender, receiver = pair()
    receiver.predicate = parse_predicate(predicate)
    assert receiver.open(sender.message(CONTENT)) is cause


def test_a_false_positive_of_the_hash() -> None:
    ring = KeyRing.new(EncodingParameters(bits=8, hashes=1), random.Random(2).randbytes)
    sender, receiver = Member(ring), Member(ring)
    many = Message({f"a{number}": number for number in range(30)})
    receiver.predicate = parse_predicate("b = 1")
    assert receiver.open(sender.message(many)) is Discard.HASH


def test_clients_have_numbers_of_their_own() -> None:
    assert len({Member(RING).message(CONTENT).sealed[:4] for _ in range(20)}) == 20


def test_senders_of_one_number_share_no_nonce() -> None:
    secret, body = bytes(32), Message({"a": 1})
    suite = RING.keys[0].parameters.suite(RING.keys[0].key_id)
    numbers = random.Random(1)
    first, second = (Sealer(secret, _SameClient(numbers.randrange(1 << 30))) for _ in range(2))
    assert first.client == second.client
    nonces = {sealer.seal(suite, 0, body).sealed[:12] for sealer in (first, second) for _ in range(50)}
    assert len(nonces) == 100


class _SameClient(random.Random):
    """Draws the same number of a client each time."""

    def getrandbits(self, bits: int) -> int:
        return 7 if bits == 32 else super().getrandbits(bits)
