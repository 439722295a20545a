"""The process that Spark forks its Python workers from (`spark.python.daemon.module` in `captures.session`).

Importing the decoder takes longer than decoding the captures of a small run. Done here, before Spark's own
daemon forks, it is done once and not in each worker.
"""

from __future__ import annotations

import runpy

import captures.decode  # noqa: F401 - for the workers
from captures.worker_process import imports_are_done

if __name__ == "__main__":
    imports_are_done()
    runpy.run_module("pyspark.daemon", run_name="__main__")
