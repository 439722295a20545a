"""The collection of garbage in cycles."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Switches the collection of cycles off.

    A collection takes time for each object that is alive, and finds little where little garbage is in cycles;
    that is left to the caller to collect.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
