"""The process that Spark forks its Python workers from (`spark.python.daemon.module` in `captures.session`).

Importing the decoder takes longer than decoding the captures of a small run. Done here, before Spark's own
daemon forks, it is done once and not in each worker.
"""

from __future__ import annotations

import gc
import runpy

import captures.decode  # noqa: F401 - for the workers

if __name__ == "__main__":
    # As in `captures.worker_process`, for all workers at once.
    gc.collect()
    gc.freeze()
    runpy.run_module("pyspark.daemon", run_name="__main__")
