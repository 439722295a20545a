"""Search for messages: by source and number, or by content."""

from __future__ import annotations

import re
from dataclasses import dataclass

from captures.tables.query import Database
from router.predicates.model import matches
from router.predicates.parser import parse_message, parse_predicate
from testbed.support.errors import InputError

_MESSAGE_ID = re.compile(r"(\d+):(\d+)")
_WHOLE = 1 << 64


@dataclass(frozen=True, slots=True)
class Listed:
    """A message in a list; see the table `messages`."""

    source: int
    seq: int
    number: int
    sent_s: float
    expected: int
    delivered: int
    missed: int
    message: str


def is_message_id(text: str) -> bool:
    """True for `3:17`."""
    return _MESSAGE_ID.fullmatch(text) is not None


def listed(database: Database, where: str | None = None, *, missed: bool = False) -> list[Listed]:
    """Returns the messages of a run in order of time.

    Args:
        where: a predicate that selects the messages.
        missed: only messages with a delivery that was missed.

    Raises:
        InputError: `where` is no predicate.
    """
    rows = database.execute(
        "select source, seq, number, sent_s, deliveries_expected, delivered, missed, message "
        "from messages where missed > 0 or not ? order by sent_s, source, seq",
        [missed],
    ).fetchall()
    messages = [Listed(*row) for row in rows]
    if where is None:
        return messages
    try:
        predicate = parse_predicate(where)
    except ValueError as error:
        raise InputError(f"--where: {error}") from error
    return [one for one in messages if matches(predicate, parse_message(one.message))]


def find(database: Database, text: str) -> Listed:
    """Returns the message `SOURCE:NUMBER`: the router's count (from 1), or the whole sequence number.

    Raises:
        InputError: no message, or several, have this name; lists the candidates.
    """
    parsed = _MESSAGE_ID.fullmatch(text)
    if parsed is None:
        raise InputError(f"{text}: expected SOURCE:NUMBER, such as 3:17")
    source, number = int(parsed[1]), int(parsed[2])
    of_source = [one for one in listed(database) if one.source == source]
    found = [one for one in of_source if number in (one.number, one.seq % _WHOLE)]
    if len(found) == 1:
        return found[0]
    if found:
        # A restarted router counts from 1.
        choices = ", ".join(f"{one.source}:{one.seq % _WHOLE} (at {one.sent_s:.3f} s)" for one in found)
        raise InputError(f"{text}: {len(found)} messages: {choices}; choose one")
    if not of_source:
        raise InputError(f"{text}: node {source} sent no message")
    numbers = sorted(one.number for one in of_source)
    first, last = f"{source}:{numbers[0]}", f"{source}:{numbers[-1]}"
    raise InputError(f"{text}: no such message; node {source} sent {len(numbers)}, {first} to {last}")
