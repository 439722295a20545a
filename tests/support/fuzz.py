"""How many cases to try: `CBCB_FUZZ=20 ./run.sh test tests/properties` tries twenty times as many."""

from __future__ import annotations

import os

_FACTOR = int(os.environ.get("CBCB_FUZZ", "1"))


def cases(count: int) -> int:
    """The number of cases where `count` is the usual one."""
    return count * _FACTOR
