"""The number of random cases: `CBCB_FUZZ=20 ./run.sh test tests/properties` tries twenty times as many."""

from __future__ import annotations

import os

_FACTOR = int(os.environ.get("CBCB_FUZZ", "1"))


def cases(count: int) -> int:
    """Returns the number of cases; `count` is the number without CBCB_FUZZ."""
    return count * _FACTOR
