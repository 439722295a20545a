"""Cases of a test that stand in a file beside it."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any


def cases_beside(test: str) -> dict[str, Any]:
    """The tables of the TOML file that has the name of a test's file, by their names.

    Args:
        test: the `__file__` of the test.
    """
    return tomllib.loads(Path(test).with_suffix(".toml").read_text(encoding="utf-8"))
