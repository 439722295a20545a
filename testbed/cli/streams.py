"""Standard streams that were closed before we began (`>&-`)."""

from __future__ import annotations

import os
import sys


def open_closed_streams() -> None:
    """Opens /dev/null in their place.

    Python has None for a stream that is closed, and the next file that is opened takes its number: what a
    child prints would go there.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is not None:
            continue
        null = os.open(os.devnull, os.O_RDWR)
        if null == number:
            os.set_inheritable(null, True)
        else:
            os.dup2(null, number)
            os.close(null)
        setattr(sys, name, os.fdopen(number, "w" if number else "r"))
