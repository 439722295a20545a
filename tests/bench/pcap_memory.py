"""A capture of 4 GB in one file, counted by link, type and second in 2 GB: what Spark's processes take.

Memory is the proportional set size of the JVM, of Python's workers and of the process that plans, sampled ten
times a second; pages that they share count once, those of the page cache not at all.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

import psutil

from captures.source import register
from captures.spark.session import spark_session
from tests.bench.generated_captures import FRAME_BYTES, write_captures
from tests.bench.pcap import QUERIES

_HEAP = "1g"
_SAMPLE_S = 0.1


class _Memory(threading.Thread):
    """Samples the memory of the descendants of this process."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.done = threading.Event()
        self.peak = 0
        self.peak_of: dict[str, int] = {}

    def run(self) -> None:
        while not self.done.wait(_SAMPLE_S):
            now: dict[str, int] = {}
            for process in psutil.Process().children(recursive=True):
                with suppress(psutil.Error):
                    name = process.name()
                    now[name] = now.get(name, 0) + process.memory_full_info().pss
            if sum(now.values()) > self.peak:
                self.peak, self.peak_of = sum(now.values()), now


def main(megabytes: int = 4000) -> None:
    """Prints the greatest memory, and the time, of each query."""
    # The JVM's heap; the workers are outside of it.
    os.environ["SPARK_DRIVER_MEMORY"] = _HEAP
    with tempfile.TemporaryDirectory(prefix="cbcb-bench-") as made:
        folder = Path(made)
        frames = megabytes * 1_000_000 // (16 + FRAME_BYTES)
        (file,) = write_captures(folder / "run", frames, links=1)
        print(f"one file of {file.stat().st_size / 1e9:.2f} GB, {frames} frames; heap of the JVM {_HEAP}")
        for name in ("rows", "view traffic"):
            with spark_session("local[2]", folder / "spark.log", large=True) as spark:
                register(spark)
                memory = _Memory()
                memory.start()
                started = time.perf_counter()
                QUERIES[name](spark, folder / "run", folder / "out")
                seconds = time.perf_counter() - started
                counted = spark.read.parquet(str(folder / "out")).selectExpr("sum(frames)").first()
                memory.done.set()
                memory.join()
            assert counted is not None
            assert counted[0] == frames
            parts = ", ".join(f"{what} {size / 1e6:.0f} MB" for what, size in sorted(memory.peak_of.items()))
            print(f"{name:14} {seconds:6.1f} s, at most {memory.peak / 1e6:.0f} MB ({parts})", flush=True)
