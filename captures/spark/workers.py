"""The Python processes in which Spark runs tasks: what makes the next task start sooner.

After each task Spark has a worker collect its garbage, and the next task waits for it. The collector looks at
every object there is; with all that the decoder imports, that takes longer than a small task does.
"""

from __future__ import annotations

import gc
import sys

from pyspark import TaskContext


def hide_objects() -> None:
    """Takes all objects that exist out of the collector's sight.

    What of them forms cycles stays until the process ends, as modules do anyhow.
    """
    gc.collect()
    gc.freeze()


def freeze_new_imports() -> None:
    """In a task: hides all objects, if something has been imported since it was done last."""
    global _modules
    if TaskContext.get() is not None and len(sys.modules) != _modules:
        _modules = len(sys.modules)
        hide_objects()


_modules = 0
