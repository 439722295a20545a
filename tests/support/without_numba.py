"""The environment of processes that find no Numba."""

from __future__ import annotations

import os
from pathlib import Path

REASON = "ModuleNotFoundError: No module named 'numba'"


def python_path(folder: Path) -> str:
    """The value of PYTHONPATH with which `import numba` fails; makes `folder`."""
    folder.mkdir()
    name, _, message = REASON.partition(": ")
    (folder / "numba.py").write_text(f"raise {name}({message!r})\n")
    return os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
