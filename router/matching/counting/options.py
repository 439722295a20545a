"""Options of the counting engine, written as `--engine counting:rounds=10,bloom=off`."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

_SWITCHES = {"on": True, "off": False}


@dataclass(frozen=True, slots=True)
class CountingOptions:
    """The optimisations of the counting engine.

    None of them changes an answer.

    Attributes:
        rounds: the number of pre-processing rounds: attributes of the selectivity table that are considered
            (SIGCOMM 2003 paper, which has 10; slides, "Selectivity Preprocessing"). 0: no table. With this
            index, the table costs more time than it saves (docs/matching.md).
        bloom: a Bloom filter of attributes excludes filters with an attribute that the message lacks, before
            anything is counted (slides, "Bloom Filters").
        short_circuit: an interface that has matched is not evaluated further (paper).
        single: filters of one constraint are not counted: their interfaces match at once (not in the papers).
        direct: if few filters are to be matched, they are evaluated without the index (not in the papers).
    """

    rounds: int = 0
    bloom: bool = True
    short_circuit: bool = True
    single: bool = True
    direct: bool = True


def parse_options(text: str) -> CountingOptions:
    """Returns the options of ``NAME=VALUE,...``; absent ones have their defaults.

    Raises:
        ValueError: an option is unknown, or its value is not valid.
    """
    known = {field.name: type(field.default) for field in fields(CountingOptions)}
    chosen: dict[str, Any] = {}
    for part in text.split(","):
        name, _, value = (piece.strip() for piece in part.partition("="))
        if name not in known:
            raise ValueError(f"unknown option {name!r} of the counting engine; expected {', '.join(known)}")
        if known[name] is bool:
            if value not in _SWITCHES:
                raise ValueError(f"option {name}: expected on or off, found {value!r}")
            chosen[name] = _SWITCHES[value]
        else:
            if not (value.isascii() and value.isdecimal()):
                raise ValueError(f"option {name}: expected a number of rounds, found {value!r}")
            chosen[name] = int(value)
    return CountingOptions(**chosen)
