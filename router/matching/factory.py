"""Matching engines by name, as experiment files and command lines give it."""

from __future__ import annotations

from collections.abc import Callable

from router.matching.counting import CountingMatcher
from router.matching.interface import Matcher
from router.matching.naive import NaiveMatcher

DEFAULT = "counting"
ENGINES: dict[str, Callable[[], Matcher]] = {"counting": CountingMatcher, "naive": NaiveMatcher}


def factory(name: str = DEFAULT) -> Matcher:
    """A new, empty engine.

    Raises:
        ValueError: there is no engine of that name.
    """
    if name not in ENGINES:
        raise ValueError(f"unknown matching engine {name!r}; expected one of {', '.join(sorted(ENGINES))}")
    return ENGINES[name]()
