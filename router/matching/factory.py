"""Matching engines by name, as experiment files and command lines give it."""

from __future__ import annotations

from collections.abc import Callable

from router.matching.counting import CountingMatcher
from router.matching.counting_options import parse_options
from router.matching.interface import Matcher
from router.matching.naive import NaiveMatcher

DEFAULT = "counting"
ENGINES: dict[str, Callable[[], Matcher]] = {"counting": CountingMatcher, "naive": NaiveMatcher}


def factory(spec: str = DEFAULT) -> Matcher:
    """A new, empty engine: ``NAME``, or ``NAME:OPTION=VALUE,...`` for an engine that has options.

    Raises:
        ValueError: there is no engine of that name, or no such option.
    """
    name, _, options = spec.partition(":")
    if name not in ENGINES:
        raise ValueError(f"unknown matching engine {name!r}; expected one of {', '.join(sorted(ENGINES))}")
    if not options:
        return ENGINES[name]()
    if name != "counting":
        raise ValueError(f"the engine {name} has no options")
    return CountingMatcher(parse_options(options))
