"""The Python processes in which Spark runs tasks, and their garbage collection.

Run as a program, this module is the process from which Spark forks its workers (the setting
`spark.python.daemon.module`). It imports the decoder before: once, and not in each worker, where the import
takes longer than the captures of a small run.

After each task, Spark has the worker collect its garbage, and the next task waits for the collection. The
collector visits every object; with all that the decoder imports, a collection takes longer than a small task.
"""

from __future__ import annotations

import gc
import runpy
import sys
from importlib import import_module

from pyspark import TaskContext


def hide_objects() -> None:
    """Excludes all objects that exist from garbage collection.

    Cycles among them stay until the process ends, as modules do in any case.
    """
    gc.collect()
    gc.freeze()


def freeze_new_imports() -> None:
    """In a task: hides all objects if modules have been imported since the last call."""
    global _modules
    if TaskContext.get() is not None and len(sys.modules) != _modules:
        _modules = len(sys.modules)
        hide_objects()


_modules = 0

if __name__ == "__main__":
    import_module("captures.frames.decoder")
    hide_objects()
    runpy.run_module("pyspark.daemon", run_name="__main__")
