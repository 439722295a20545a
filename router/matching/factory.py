"""Matching engines by name, as experiment files and command lines give it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from router.matching.counting import CountingMatcher
from router.matching.interface import Matcher
from router.matching.naive import NaiveMatcher

#: What serves where `COMPILED` cannot.
FALLBACK = "counting"
COMPILED = "compiled"
DEFAULT = COMPILED


def _compiled() -> Matcher:
    # Numba and NumPy come with it, which the other engines do without.
    from router.matching.compiled.engine import CompiledMatcher

    return CompiledMatcher()


ENGINES: dict[str, Callable[[], Matcher]] = {
    COMPILED: _compiled,
    "counting": CountingMatcher,
    "naive": NaiveMatcher,
}


def factory(name: str = DEFAULT) -> Matcher:
    """A new, empty engine; `FALLBACK` in place of `COMPILED` where nothing can be compiled.

    Raises:
        ValueError: there is no engine of that name.
    """
    return ENGINES[serving(name)]()


def serving(name: str = DEFAULT) -> str:
    """The name of the engine that `factory` makes.

    Raises:
        ValueError: there is no engine of that name.
    """
    if name not in ENGINES:
        raise ValueError(f"unknown matching engine {name!r}; expected one of {', '.join(sorted(ENGINES))}")
    return FALLBACK if name == COMPILED and why_not_compiled() is not None else name


@cache
def why_not_compiled() -> str | None:
    """Why the compiled engine cannot serve, or None. Loads it; compiles it where that was not done before."""
    try:
        from router.matching.compiled.warm import warm

        warm()
    except Exception as error:
        return f"{type(error).__name__}: {error}".splitlines()[0]
    return None
