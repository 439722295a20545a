"""The wording for a key or name that is not known: the nearest known one, or the list of them."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """Says that `name` is not a known `kind` ("key", "generator"), and what was probably meant.

    >>> unknown("key", "time_scal", ["time_scale", "seed"])
    "unknown key 'time_scal'; did you mean 'time_scale'?"
    """
    choices = sorted(known)
    near = get_close_matches(name, choices, n=1)
    if near:
        return f"unknown {kind} '{name}'; did you mean '{near[0]}'?"
    return f"unknown {kind} '{name}'; expected one of: {', '.join(choices)}"
