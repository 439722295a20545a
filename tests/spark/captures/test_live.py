"""The live stream counts of growing captures what a batch counts of the finished captures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from captures.datasource.live_counts import LinkCount, counts, stream_counts
from captures.source import register
from tests.support.run_folder import good_run

pytestmark = pytest.mark.spark


def totals(found: Iterable[LinkCount]) -> dict[tuple[int, str, int], tuple[int, int]]:
    frames: Counter[tuple[int, str, int]] = Counter()
    size: Counter[tuple[int, str, int]] = Counter()
    for one in found:
        frames[one.link, one.type, one.slot] += one.frames
        size[one.link, one.type, one.slot] += one.bytes
    return {key: (number, size[key]) for key, number in frames.items()}


def test_counts_each_frame_of_growing_captures_once(tmp_path: Path, spark: SparkSession) -> None:
    run = good_run().write(tmp_path / "run")
    whole = {file: file.read_bytes() for file in sorted((run / "pcap").glob("*.pcap"))}
    # As it is while the run goes on: nothing of the captures is known but their files.
    (run / "capture.json").unlink()
    for file, content in whole.items():
        file.write_bytes(content[:30])
    found: list[LinkCount] = []
    query = stream_counts(spark, run, found.extend, tmp_path / "work", 0.1)
    try:
        query.processAllAvailable()
        # The capture that a stream begins with is of no link.
        assert found == []
        for part in (0.3, 0.7, 1.0):
            for file, content in whole.items():
                # Not `write_bytes`, which first empties the file: the stream would see it shrink.
                with file.open("ab") as growing:
                    growing.write(content[growing.tell() : round(part * len(content))])
            query.processAllAvailable()
    finally:
        query.stop()
    register(spark)
    batch = spark.read.format("cbcb").load(str(run)).where("kind = 'link'")
    link_of = {"link-0-1": 0, "link-1-2": 1}
    expected = totals(LinkCount(link_of[name], *rest) for name, *rest in counts(batch).collect())
    assert totals(found) == expected
    assert {kind for _, kind, _ in expected} == {"MSG", "RA"}
    assert sum(one.frames for one in found) == sum(number for number, _ in expected.values()) > 5
