"""The loops of the readers of captures, compiled or as plain Python, whatever the amount of data."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

#: Plain Python, and compiled code.
WAYS = (False, True)


def loops(*, compiled: bool) -> AbstractContextManager[Any]:
    """Makes all readers of this process use compiled loops, or none, while the context lasts."""
    return patch("captures.pcap.compiling.should_compile", return_value=compiled)
