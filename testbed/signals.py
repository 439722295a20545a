"""Orderly termination on signals."""

from __future__ import annotations

import errno
import os
import signal
import termios
from types import FrameType

#: Signals that end a command.
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def end_like_ctrl_c() -> None:
    """Makes SIGINT, SIGTERM and SIGHUP raise KeyboardInterrupt: everything is cleaned up as after Ctrl-C.

    An ignored SIGTERM or SIGHUP stays ignored: `nohup` ignores SIGHUP for the process that it starts. A shell
    makes the background jobs of a script ignore SIGINT; a run has to end by that signal all the same.
    """
    signal.signal(signal.SIGINT, _interrupt)
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)


def leave_closed_terminal() -> None:
    """Drops what is printed to a terminal that was closed (SIGHUP), where writing would be an error."""
    for descriptor in range(3):
        try:
            termios.tcgetattr(descriptor)
        except termios.error as error:
            if error.args[0] == errno.EIO:
                os.dup2(os.open(os.devnull, os.O_RDWR), descriptor)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    leave_closed_terminal()
    raise KeyboardInterrupt
