"""The process from which Spark forks its Python workers (setting `spark.python.daemon.module`).

Importing the decoder takes longer than decoding the captures of a small run. This module imports it before
Spark's own daemon forks: once, and not in each worker.
"""

from __future__ import annotations

import runpy

import captures.frames.decoder  # noqa: F401 - for the workers
from captures.spark.workers import hide_objects

if __name__ == "__main__":
    hide_objects()
    runpy.run_module("pyspark.daemon", run_name="__main__")
