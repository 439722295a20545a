"""Switches of the counting engine, as `--engine counting:rounds=10,bloom=off` spells them."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

_SWITCHES = {"on": True, "off": False}


@dataclass(frozen=True, slots=True)
class CountingOptions:
    """What the counting engine does beside counting: optimisations, none of which changes an answer.

    Attributes:
        rounds: pre-processing rounds: how many attributes of the selectivity table are looked at (SIGCOMM
            2003 paper, which has 10; slides, "Selectivity Preprocessing"). 0: there is no table. With this
            index it costs more than it saves (docs/matching.md).
        bloom: filters of which the message lacks an attribute are passed over by a Bloom filter of
            attributes, before anything is counted (slides, "Bloom Filters").
        short_circuit: nothing more is evaluated for an interface that has matched (paper).
        single: filters of one constraint are not counted: their interfaces match at once (not in the papers).
        direct: where few filters are asked for, they are evaluated without the index (not in the papers).
    """

    rounds: int = 0
    bloom: bool = True
    short_circuit: bool = True
    single: bool = True
    direct: bool = True


def parse_options(text: str) -> CountingOptions:
    """Options from ``NAME=VALUE,...``; those not named keep their defaults.

    Raises:
        ValueError: an option is unknown, or its value is not one.
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
