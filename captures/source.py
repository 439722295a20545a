"""Captures in Spark: the packets of any capture (`pcap`), and decoded CBCB frames (`cbcb`).

    register(spark)
    spark.read.format("pcap").load("captures/*.pcap")
    spark.read.format("cbcb").load(RUN)
    spark.readStream.format("cbcb").load(RUN)

docs/reference/pcap-source.md describes the options, the columns and the pushdown of filters.
"""

from __future__ import annotations

from captures.datasource.formats import captured_frames, register
from captures.frames.index import write_index

__all__ = ["captured_frames", "register", "write_index"]
