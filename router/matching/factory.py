"""Matching engines by name, as experiment files and command lines give it.

A new one joins by one line.
"""

from __future__ import annotations

from collections.abc import Callable

from router.matching.common.interface import Matcher
from router.registry import Registry

COMPILED = "compiled"
DEFAULT = COMPILED

#: Makes an empty engine from the text of its options: ``OPTION=VALUE,...``, empty for none. Raises ValueError
#: for an option that it does not have.
EngineFactory = Callable[[str], Matcher]

#: Entries are loaded when they are asked for: Numba and NumPy come with the compiled engine, which the others
#: do without.
ENGINES: Registry[EngineFactory] = Registry("matching engine")
ENGINES.register_lazily(COMPILED, "router.matching.compiled.engine:make", "Machine code, the fast engine.")
ENGINES.register_lazily(
    "counting",
    "router.matching.counting.engine:make",
    "The counting algorithm of the papers, in plain Python.",
)
ENGINES.register_lazily("naive", "router.matching.naive:make", "Every filter is evaluated in turn.")


def factory(spec: str = DEFAULT) -> Matcher:
    """A new, empty engine: ``NAME``, or ``NAME:OPTION=VALUE,...`` for an engine that has options.

    Raises:
        ValueError: there is no engine of that name, or no such option.
    """
    check_engine(spec)
    name, _, options = spec.partition(":")
    return ENGINES[name](options)


def check_engine(spec: str) -> None:
    """Raises ValueError, as `factory` does."""
    name, _, options = spec.partition(":")
    if name not in ENGINES:
        raise ValueError(f"unknown matching engine {name!r}; expected one of {', '.join(sorted(ENGINES))}")
    if options:
        ENGINES[name](options)


def compiles_first(spec: str = DEFAULT) -> bool:
    """Whether this engine is compiled when it is first made, which takes some ten seconds, once."""
    if spec != COMPILED:
        return False
    from router.matching.compiled.layout import COMPILER

    return not COMPILER.has_code
