"""Orderly termination on signals."""

from __future__ import annotations

import signal
from types import FrameType


def end_like_ctrl_c() -> None:
    """Makes SIGINT, SIGTERM and SIGHUP raise KeyboardInterrupt: everything is cleaned up as after Ctrl-C.

    An ignored SIGTERM or SIGHUP stays ignored: `nohup` ignores SIGHUP for the process that it starts. A shell
    makes the background jobs of a script ignore SIGINT; a run has to end by that signal all the same.
    """
    signal.signal(signal.SIGINT, _interrupt)
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
