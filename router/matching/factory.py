"""Matching engines by name, as experiment files and command lines give it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from router.matching.common.interface import Matcher
from router.matching.counting.engine import CountingMatcher
from router.matching.counting.options import parse_options
from router.matching.naive import NaiveMatcher

COMPILED = "compiled"
DEFAULT = COMPILED
#: What serves where `COMPILED` cannot.
FALLBACK = "counting"


def _compiled() -> Matcher:
    # Numba and NumPy come with it, which the other engines do without.
    from router.matching.compiled.engine import CompiledMatcher

    return CompiledMatcher()


ENGINES: dict[str, Callable[[], Matcher]] = {
    COMPILED: _compiled,
    "counting": CountingMatcher,
    "naive": NaiveMatcher,
}


def factory(spec: str = DEFAULT) -> Matcher:
    """A new, empty engine: ``NAME``, or ``NAME:OPTION=VALUE,...`` for an engine that has options.

    `FALLBACK` in place of `COMPILED` where nothing can be compiled (`why_not_compiled`).

    Raises:
        ValueError: there is no engine of that name, or no such option.
    """
    name, _, options = spec.partition(":")
    if not options:
        return ENGINES[serving(name)]()
    check_engine(spec)
    return CountingMatcher(parse_options(options))


def check_engine(spec: str) -> None:
    """Raises ValueError, as `factory` does, without making an engine."""
    name, _, options = spec.partition(":")
    if name not in ENGINES:
        raise ValueError(f"unknown matching engine {name!r}; expected one of {', '.join(sorted(ENGINES))}")
    if options:
        if name != "counting":
            raise ValueError(f"the engine {name} has no options")
        parse_options(options)


def serving(spec: str = DEFAULT) -> str:
    """The engine that `factory` makes: another one than was asked for where nothing can be compiled.

    Raises:
        ValueError: as `factory`.
    """
    check_engine(spec)
    return FALLBACK if spec == COMPILED and why_not_compiled() is not None else spec


def compiles_first(spec: str = DEFAULT) -> bool:
    """Whether this engine is compiled when it is first made, which takes some ten seconds, once."""
    if spec != COMPILED:
        return False
    try:
        from router.matching.compiled.compiler import COMPILER
    except ImportError:
        return False
    return not COMPILER.has_code


@cache
def why_not_compiled() -> str | None:
    """Why the compiled engine cannot serve, or None. Loads it; compiles it where that was not done before."""
    try:
        from router.matching.compiled.warm import warm

        warm()
    except Exception as error:
        return f"{type(error).__name__}: {error}".splitlines()[0]
    return None
