"""Workload files of the protocol authors' simulator: topology, predicates and messages in one file.

::

    time_unit 0.01 ; sim_length 20000 ;
    node 0 455 282 , node 1 310 90 , link 0 1 8 ,
    set_predicate NODE TIME 0 a < 10, b = "x" | c any int ;
    send_message NODE TIME a = 9 b = "x" ;

`time_unit` is the number of seconds in a unit of TIME and of `sim_length`. `node ID X Y` and `link NODE NODE
LENGTH` declare the topology; the length, rounded and at least 1, is the cost of the link. Predicates and
messages have the notation of the Siena Fast Forwarding driver (`testbed.experiments.siena_ff`),
which has the same authors; a predicate without text selects nothing. The whole number before a predicate,
which numbers an interface, has no meaning in this project: a node has one predicate.

Source: CBCBSIM 1.0.2, the simulator that the authors released.
"""

from __future__ import annotations

import math
import re
from typing import Any

from router.predicates import Message, Predicate
from router.predicates.lexer import ParseError, TokenKind
from router.predicates.printer import format_message, format_predicate
from testbed.experiments.siena_ff import BLANK, FLAGS, DriverParser

_KEYWORDS = ("time_unit", "sim_length", "node", "link", "set_predicate", "send_message")
_BEGINNING = re.compile(rf"{BLANK}(?:{'|'.join(_KEYWORDS)})\s+[-+0-9.]", FLAGS)
_NUMBERS = frozenset({TokenKind.INTEGER, TokenKind.DOUBLE})


def is_script(text: str) -> bool:
    """Returns whether a text begins as a workload file does (no TOML text begins so)."""
    return _BEGINNING.match(text) is not None


def read_script(name: str, text: str) -> dict[str, Any]:
    """Returns a workload file as the document of an experiment file, with tables `events` and `topology`.

    Predicates and messages later than `sim_length` are left out: the simulation has ended. Without a
    `sim_length`, the workload ends with the last of them.

    Args:
        name: of the topology, if the file declares one.

    Raises:
        ParseError: the text is not of the form; has line and column.
    """
    return _Reader(text).document(name)


class _Reader:
    def __init__(self, text: str) -> None:
        self._parser = DriverParser(text, 0, 1, 1)
        self._unit = 1.0
        self._length: float | None = None
        self._nodes: list[dict[str, Any]] = []
        self._links: list[dict[str, Any]] = []
        #: Time in units, and the table of the event.
        self._events: list[tuple[float, dict[str, Any]]] = []

    def document(self, name: str) -> dict[str, Any]:
        parser = self._parser
        while parser.current.kind is not TokenKind.END:
            keyword = parser.current
            if keyword.kind is not TokenKind.WORD or keyword.text not in _KEYWORDS:
                raise parser.error(f"expected {', '.join(_KEYWORDS[:-1])} or {_KEYWORDS[-1]}")
            parser.take()
            getattr(self, f"_{keyword.text}")()
        document: dict[str, Any] = {"workload": False, "duration_s": self._duration_s()}
        last = document["duration_s"]
        timed = ((self._seconds(at), event) for at, event in self._events)
        document["events"] = [{"at_s": at_s, **event} for at_s, event in timed if at_s <= last]
        if self._nodes or self._links:
            document["topology"] = {"name": name, "node": self._nodes, "link": self._links}
        return document

    def _duration_s(self) -> float:
        if self._length is not None:
            return self._seconds(self._length)
        return self._seconds(max((at for at, _ in self._events), default=0.0))

    def _seconds(self, units: float) -> float:
        # 11107485 units of 0.000001 s are 11.107485 s, and not 11.107484999999999 s.
        return round(units * self._unit, 9)

    # The statements, after their keywords.

    def _time_unit(self) -> None:
        token = self._parser.current
        self._unit = self._number("the seconds of a unit of time")
        if self._unit <= 0:
            raise ParseError(f"time_unit is {token.text}; expected more than 0", token.line, token.column)
        self._separator()

    def _sim_length(self) -> None:
        self._length = self._number("the length of the simulation")
        self._separator()

    def _node(self) -> None:
        node = self._identifier()
        x, y = (self._number(what, low=-math.inf) for what in ("x", "y"))
        self._nodes.append({"id": node, "x": x, "y": y})
        self._separator()

    def _link(self) -> None:
        u, v = self._identifier(), self._identifier()
        length = self._number("the length of the link") if self._parser.current.kind in _NUMBERS else 1.0
        self._links.append({"u": u, "v": v, "cost": max(1, math.floor(length + 0.5))})
        self._separator()

    def _set_predicate(self) -> None:
        node, at = self._identifier(), self._number("the time")
        self._parser.accept(TokenKind.INTEGER)
        predicate = Predicate(())
        if self._parser.current.kind not in (TokenKind.SEMICOLON, TokenKind.END):
            predicate = self._parser.predicate()
        self._end()
        event = {"action": "set_predicate", "node": node, "predicate": format_predicate(predicate)}
        self._events.append((at, event))

    def _send_message(self) -> None:
        node, at = self._identifier(), self._number("the time")
        attributes: dict[str, Any] = {}
        while self._parser.current.kind in (TokenKind.WORD, TokenKind.STRING):
            self._parser.attribute(attributes)
            self._parser.accept(TokenKind.COMMA)
        self._end()
        message = format_message(Message(attributes))
        self._events.append((at, {"action": "send_message", "node": node, "message": message}))

    # Parts of statements.

    def _identifier(self) -> int:
        token = self._parser.current
        if token.kind is not TokenKind.INTEGER or not isinstance(token.value, int) or token.value < 0:
            raise self._parser.error("expected the number of a node")
        self._parser.take()
        return token.value

    def _number(self, what: str, low: float = 0.0) -> float:
        token = self._parser.current
        if token.kind not in _NUMBERS or not isinstance(token.value, int | float) or token.value < low:
            raise self._parser.error(f"expected {what}, a number" + (" from 0 up" if low == 0 else ""))
        self._parser.take()
        try:
            return float(token.value)
        except OverflowError:
            raise ParseError(f"{what} is too large", token.line, token.column) from None

    def _separator(self) -> None:
        """Between declarations there is a semicolon, a comma, or just a blank."""
        if not self._parser.accept(TokenKind.SEMICOLON):
            self._parser.accept(TokenKind.COMMA)

    def _end(self) -> None:
        if self._parser.current.kind is not TokenKind.END:
            self._parser.expect(TokenKind.SEMICOLON, "expected ';'")
