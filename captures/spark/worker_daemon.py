"""The process that Spark forks its Python workers from (`spark.python.daemon.module` in
`captures.spark.session`).

Importing the decoder takes longer than decoding the captures of a small run. Done here, before Spark's own
daemon forks, it is done once and not in each worker.
"""

from __future__ import annotations

import runpy

import captures.frames.decoder  # noqa: F401 - for the workers
from captures.spark.workers import hide_objects

if __name__ == "__main__":
    hide_objects()
    runpy.run_module("pyspark.daemon", run_name="__main__")
