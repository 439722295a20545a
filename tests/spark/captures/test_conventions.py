"""Conventions of Spark's own formats, through Spark: schema, watermark, limits of batches, short errors."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from captures.datasource.formats import register
from tests.support.capture_files import pcap
from tests.support.run_folder import good_run

pytestmark = pytest.mark.spark

PACKETS = [(1_700_000_000_000_000_000 + number * 10**9, bytes([number]) * 60) for number in range(40)]


def test_options_are_those_of_sparks_formats(tmp_path: Path, spark: SparkSession) -> None:
    """Each of them is needed here: for a file that is left out, or an error that is none."""
    register(spark)
    contents = {
        # The second packet does not decode.
        "a": pcap([(1, bytes(60)), (2, bytes(9)), (3, bytes(60))]),
        "old": pcap(PACKETS[:1]),
        "unwanted": pcap(PACKETS[:1]),
        "deep/also": pcap(PACKETS[:1]),
        "deep/also_text": b"no capture at all, but a text of some length",
    }
    (tmp_path / "deep").mkdir()
    for name, content in contents.items():
        path = tmp_path / f"{name}.pcap"
        path.write_bytes(content)
        second = 1000 if name == "old" else 2000
        os.utime(path, (second, second))
    read = (
        spark.read.format("pcap")
        .option("columns", "file,packet")
        .options(
            mode="dropMalformed",
            ignoreCorruptFiles="true",
            ignoreMissingFiles="true",
            modifiedAfter="1970-01-01T00:16:40",
            recursiveFileLookup="true",
            pathGlobFilter="[ao]*",
        )
    )
    rows = read.load([str(tmp_path), f"{tmp_path}/no.pcap", f"{tmp_path}/{{x,y}}*.pcap"]).collect()
    assert sorted(f"{Path(row.file).stem}{row.packet}" for row in rows) == ["a1", "a3", "also1"]


def test_a_schema_is_a_projection(tmp_path: Path, spark: SparkSession) -> None:
    register(spark)
    run = str(good_run().write(tmp_path / "run"))
    everything = spark.read.format("cbcb").load(run)
    value = "struct<string: string, integer: bigint, double: double, boolean: boolean, number: double>"
    columns = f"type string, attributes map<string, {value}>, time timestamp"
    chosen = spark.read.format("cbcb").schema(columns).load(run)
    assert chosen.dtypes == everything.select("type", "attributes", "time").dtypes
    expected = sorted(map(str, everything.select("type", "attributes", "time").collect()))
    assert sorted(map(str, chosen.collect())) == expected
    # The names alone, in Spark's spelling of the types.
    traffic = spark.read.format("cbcb").option("view", "traffic").schema("frames LONG, link INT").load(run)
    assert traffic.selectExpr("sum(frames)").collect()[0][0] == everything.count()


def test_errors_of_users_have_one_line(tmp_path: Path, spark: SparkSession) -> None:
    register(spark)
    (tmp_path / "text.pcap").write_text("no capture at all, but a text of some length")
    read = spark.read.format("pcap")
    attempts: tuple[tuple[Callable[[], object], str], ...] = (
        (lambda: read.option("mode", "x").load(str(tmp_path)), "pcap: option mode: 'x'; expected PERMISSIVE"),
        (lambda: spark.read.format("pcap").schema("a int").load(str(tmp_path)).count(), "no column 'a'"),
        (lambda: spark.read.format("pcap").load(f"{tmp_path}/no.pcap").count(), "no such file or directory"),
        (lambda: spark.read.format("pcap").load(str(tmp_path)).count(), "starts with 6e6f2063; expected"),
    )
    for attempt, message in attempts:
        with pytest.raises(PySparkException, match=message) as caught:
            attempt()
        first = next(line for line in str(caught.value).splitlines() if message in line)
        assert "Traceback" not in first
        assert '  File "' not in str(caught.value).split("Driver stacktrace")[0]


def test_a_followed_folder_with_limits_and_a_watermark(tmp_path: Path, spark: SparkSession) -> None:
    register(spark)
    captures = tmp_path / "captures"
    captures.mkdir()
    for number in range(4):
        (captures / f"{number}.pcap").write_bytes(pcap(PACKETS[number * 10 : number * 10 + 10]))
    packets = (
        spark.readStream.format("pcap")
        .option("columns", "time,length")
        .option("maxFilesPerTrigger", "1")
        .load(str(captures))
    )
    by_time = packets.withWatermark("time", "5 seconds").groupBy("time").count()
    query = (
        by_time.writeStream.format("memory")
        .queryName("by_time")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    assert [each["numInputRows"] for each in query.recentProgress if each["numInputRows"]] == [10] * 4
    # The watermark ends the groups: only the last seconds are held back.
    assert spark.table("by_time").count() >= 30
