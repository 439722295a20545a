"""The Python processes in which Spark runs tasks: what makes the next task start sooner.

After each task Spark has a worker collect its garbage, and the next task waits for it. The collector looks at
every object there is; with all that the decoder imports, that takes longer than a small task does.
"""

from __future__ import annotations

import gc
import sys

from pyspark import TaskContext


def imports_are_done() -> None:
    """In a task: takes all objects that exist out of the collector's sight, if something has been imported.

    What of them forms cycles stays until the process ends, as modules do anyhow.
    """
    global _modules
    if TaskContext.get() is not None and len(sys.modules) != _modules:
        _modules = len(sys.modules)
        gc.collect()
        gc.freeze()


_modules = 0
