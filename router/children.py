"""Child processes that run a module of this project with this process's interpreter."""

from __future__ import annotations

import subprocess
import sys
from typing import Any


def start_module(module: str, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    """Starts `python -m module arguments...` in a session of its own, out of reach of a terminal's Ctrl-C.

    The child does not import from the working folder (`-P`): it may run as root, and the folder may have a
    `testbed.py` of somebody else, or a `json.py` of the user.

    Args:
        options: those of `subprocess.Popen`.

    Raises:
        OSError: the process cannot be started.
    """
    return subprocess.Popen(
        [sys.executable, "-P", "-m", module, *arguments], start_new_session=True, **options
    )
