"""Orderly termination on signals."""

from __future__ import annotations

import signal
from types import FrameType


def end_like_ctrl_c() -> None:
    """Makes SIGTERM and SIGHUP raise KeyboardInterrupt, so that everything is cleaned up as after Ctrl-C.

    An ignored signal stays ignored: `nohup` ignores SIGHUP for the process that it starts.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
