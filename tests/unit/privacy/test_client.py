"""An application with keys: requests and deliveries of its client are encoded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from router.predicates.encoded import BloomMessage, BloomPredicate
from router.predicates.parser import parse_message
from router.privacy import KeyRing
from router.privacy.application import PrivateApplication
from router.privacy.member import Member
from router.records.applications import ApplicationRecords
from router.wire import private
from router.wire.format import FrameType
from tests.support.applications import failed

RING = KeyRing.new()


def _asked(
    application: PrivateApplication, number: int, op: str, fields: dict[str, object], **answer: int
) -> dict[str, Any]:
    """The request as it goes to the router, which answers it."""
    sent = application.request(number, op, fields)
    application.answered(number, {"ok": True, **answer})
    return sent


def _declared(application: PrivateApplication, number: int, predicate: str) -> BloomPredicate:
    fields = _asked(application, number, "set_predicate", {"predicate": predicate})
    declared = private.decode_predicate(FrameType.XRA, bytes.fromhex(fields["encoded"]))
    assert isinstance(declared, BloomPredicate)
    return declared


def test_the_declared_predicate_leaves_nothing_of_a_revoked_subscription() -> None:
    application = PrivateApplication(Member(RING))
    application.connected(3, "app")
    _asked(application, 1, "subscribe", {"predicate": 'dest = "ORD"'}, subscription=1)
    sender = Member(RING)
    message = sender.message(parse_message('dest = "ORD"'))
    assert not _declared(application, 2, "price = 400").matches(message)
    # Under a new key the router has the subscription by the old one alone: what is declared covers it.
    rotated = RING.rotated()
    application.member.set_keys(rotated)
    assert _declared(application, 3, "price = 400").matches(message)
    _asked(application, 4, "unsubscribe", {"subscription": 1})
    assert not _declared(application, 5, "price = 400").matches(message)


def test_requests_are_encoded_and_records_exact(tmp_path: Path) -> None:
    records = ApplicationRecords(tmp_path / "records.jsonl", failed)
    application = PrivateApplication(Member(RING), records)
    application.connected(3, "app")
    wide = _asked(application, 1, "set_predicate", {"predicate": "price < 400"})
    _asked(application, 2, "subscribe", {"predicate": 'dest = "ORD"'}, subscription=1)
    sent = _asked(application, 3, "send_message", {"attributes": {"price": 300}}, source=3, seq=9)
    assert "price" not in json.dumps([wide, sent])
    predicate = private.decode_predicate(FrameType.XRA, bytes.fromhex(wide["encoded"]))
    message = private.decode_message(bytes.fromhex(sent["encoded"]))
    assert isinstance(message, BloomMessage)
    assert predicate.matches(message)

    texts = ("price = 500", 'dest = "ORD"', "price = 300")
    assert [_kept(application, text, seq) for seq, text in enumerate(texts)] == [False, True, True]
    assert application.delivered(7, 3, "00") is None
    _asked(application, 4, "unsubscribe", {"subscription": 1})
    assert not _kept(application, 'dest = "ORD"', 4)
    records.close()
    lines = [json.loads(line) for line in (tmp_path / "records.jsonl").read_text().splitlines()]
    assert [(line["event"], line.get("cause")) for line in lines] == [
        ("set_predicate", None),
        ("subscribe", None),
        ("send_message", None),
        ("discard", "operator"),
        ("deliver", None),
        ("deliver", None),
        ("discard", "not_authentic"),
        ("unsubscribe", None),
        ("discard", "stale"),
    ]
    assert lines[0]["predicate"] == "price < 400"
    assert lines[2]["attributes"] == {"price": 300}


def _kept(application: PrivateApplication, text: str, seq: int) -> bool:
    encoded = private.encode_message(Member(RING).message(parse_message(text))).hex()
    return application.delivered(7, seq, encoded) is not None


def test_a_refused_predicate_leaves_the_earlier_one_in_force() -> None:
    application = PrivateApplication(Member(RING))
    application.connected(3, "app")
    _asked(application, 1, "set_predicate", {"predicate": "a = 1"})
    application.request(2, "set_predicate", {"predicate": "a = 2"})
    # Which of the two is in force is not known before the answer.
    assert _kept(application, "a = 1", 1)
    assert _kept(application, "a = 2", 2)
    assert application.declared == "a = 2"
    application.answered(2, {"ok": False})
    assert application.declared == "a = 1"
    assert _kept(application, "a = 1", 3)
    assert not _kept(application, "a = 2", 4)


def test_a_new_connection_begins_with_nothing() -> None:
    application = PrivateApplication(Member(RING))
    application.connected(3, "app")
    _asked(application, 1, "set_predicate", {"predicate": "a = 1"})
    application.request(2, "subscribe", {"predicate": "a = 2"})
    application.connected(3, "app")
    _asked(application, 2, "send_message", {"attributes": {"a": 1}}, source=3, seq=1)
    assert application.subscriptions == {}
    assert not _kept(application, "a = 1", 1)
