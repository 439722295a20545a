"""The names and values of a run as they would stand in a frame that is not encoded."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from captures.rundir import RunLayout
from router.predicates import Value
from router.predicates.parser import parse_predicate

#: Shorter texts, and numbers with fewer bytes that are not 0, are in random bytes by chance.
_TEXT, _NUMBER = 4, 3


def plain_forms(events: Iterable[Mapping[str, Any]]) -> set[bytes]:
    """The bytes of names and values of the messages and predicates in records of applications.

    Texts are in UTF-8; numbers as 8 bytes in both orders, and in decimal digits.
    """
    found: set[bytes] = set()
    for event in events:
        for name, value in _pairs(event):
            found.update(_forms(name))
            if value is not None:
                found.update(_forms(value))
    return found


def captured_bytes(run: RunLayout) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(Path(run.captures_folder).glob("*.pcap")))


def _pairs(event: Mapping[str, Any]) -> Iterator[tuple[str, Value | None]]:
    yield from event.get("attributes", {}).items()
    if "predicate" in event:
        for filter_ in parse_predicate(event["predicate"]):
            for constraint in filter_:
                yield constraint.name, constraint.value


def _forms(value: Value) -> Iterator[bytes]:
    if isinstance(value, bool):
        return
    if isinstance(value, str):
        texts = [value]
        packed = []
    else:
        texts = [str(value)]
        packed = [struct.pack(order + ("q" if isinstance(value, int) else "d"), value) for order in "><"]
    yield from (text.encode() for text in texts if len(text) >= _TEXT + isinstance(value, int | float))
    yield from (each for each in packed if len(each) - each.count(0) >= _NUMBER)
