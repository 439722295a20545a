"""Without a compiler, the counting engine is used."""

from __future__ import annotations

import subprocess
import sys

from router.matching.counting.engine import CountingMatcher
from router.matching.factory import factory, serving, why_not_compiled

_WITHOUT_NUMBA = """
import sys
sys.modules["numba"] = None
from router.matching.factory import factory, serving, why_not_compiled
print(type(factory()).__name__, serving(), serving("naive"), why_not_compiled(), sep="|")
"""


def test_without_numba_the_counting_engine_serves_and_says_why() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_NUMBA], check=True, capture_output=True, text=True
    ).stdout.strip()
    engine, default, naive, reason = done.split("|")
    assert (engine, default, naive) == (CountingMatcher.__name__, "counting", "naive")
    assert reason.startswith("ModuleNotFoundError: ")
    assert "numba" in reason


def test_with_numba_the_compiled_engine_serves() -> None:
    assert why_not_compiled() is None
    assert serving() == "compiled"
    assert type(factory()).__name__ == "CompiledMatcher"
