"""Messages beyond the bounds of a router are refused, of applications and of neighbours."""

from __future__ import annotations

import pytest

from router.content.base import MOST_ATTRIBUTES
from router.predicates.model import Message
from router.predicates.parser import ParseError, parse_message
from router.protocol.bounds import MOST_BYTES, is_too_large
from router.protocol.events import FrameReceived, Refused, SendMessage
from router.wire.frames import AddressedMessage, EncodedMessage, Frame, FrameType
from router.wire.message import encode_message
from tests.support.one_router import msg, ra, received, sent, set_up

_FITS = Message({f"a{number}": number for number in range(MOST_ATTRIBUTES)})
_MANY = Message({**_FITS, "one": 1})
_LONG = Message({f"s{number}": "é" * 32_000 for number in range(17)})


@pytest.mark.parametrize("message", [_MANY, _LONG], ids=["attributes", "bytes"])
def test_a_message_that_is_too_large_is_refused(message: Message) -> None:
    router = set_up()
    received(router, 12, ra(12, "a1 = 1 or s1 any string"))
    assert sent(router.handle(SendMessage(1, _FITS), 0.0))
    (refused,) = router.handle(SendMessage(1, message), 0.0)
    assert isinstance(refused, Refused)
    assert "at most" not in refused.reason
    assert f"more than {MOST_ATTRIBUTES} attributes or {MOST_BYTES} bytes" in refused.reason
    for body in (message, EncodedMessage(encode_message(message))):
        assert received(router, 11, Frame(FrameType.MSG, 11, 9, 1, 9, body)) == []
        assert is_too_large(AddressedMessage((11,), body))
    assert router.counters.dropped["message_refused"] == 3
    assert sent(received(router, 11, msg(11, a1=1)))


def test_the_largest_messages_that_are_taken() -> None:
    for message in (_FITS, Message({f"s{number}": "a" * 65_000 for number in range(16)})):
        assert not is_too_large(message)
        assert not is_too_large(EncodedMessage(encode_message(message)))
    # Frames that break a rule of the format are counted as such, not here.
    assert not is_too_large(EncodedMessage(encode_message(_MANY)[:-1]))


def test_a_text_is_read_no_further_than_a_message_may_go() -> None:
    text = ", ".join(f"a{number} = {number}" for number in range(MOST_ATTRIBUTES))
    assert parse_message(f"[{text},]", MOST_ATTRIBUTES) == _FITS
    with pytest.raises(ParseError, match=f"more than {MOST_ATTRIBUTES} attributes"):
        parse_message(f"{text}, one = 1, two = 2", MOST_ATTRIBUTES)
    with pytest.raises(ParseError, match="more than 900 attributes"):
        parse_message(f"{text} ??", 900)
    assert len(parse_message(f"{text}, one = 1")) == MOST_ATTRIBUTES + 1


def test_frames_of_both_kinds_are_events_of_neighbours() -> None:
    """The event of a live router, whose message is not decoded."""
    router = set_up()
    received(router, 12, ra(12, "a1 = 1"))
    body = EncodedMessage(encode_message(_FITS))
    ((ports, _),) = sent(router.handle(FrameReceived(11, Frame(FrameType.MSG, 11, 3, 1, 9, body)), 0.0))
    assert ports == {2}
