"""Conventions of Spark's own formats, through Spark: schema, watermark, limits of batches, short errors."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether

from captures.source import register
from tests.support.capture_files import pcap
from tests.support.run_folder import good_run

pytestmark = pytest.mark.spark

PACKETS = [(1_700_000_000_000_000_000 + number * 10**9, bytes([number]) * 60) for number in range(40)]


#: Too short for an Ethernet header.
SHORT = bytes(9)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Captures a, b and c, changed at the seconds 1,000, 2,000 and 3,000 of 1970, and a folder with a text.

    The second packet of a does not decode, and c ends inside its second record.
    """
    folder = tmp_path_factory.mktemp("captures")
    contents = {
        "a": pcap([(1, bytes(60)), (2, SHORT), (3, bytes(60))]),
        "b": pcap([(4, bytes(60))]),
        "c": pcap([(5, bytes(60)), (6, bytes(60))])[:-1],
    }
    for second, (name, content) in enumerate(contents.items(), start=1):
        path = folder / f"{name}.pcap"
        path.write_bytes(content)
        os.utime(path, (1000 * second, 1000 * second))
    (folder / "texts").mkdir()
    (folder / "texts" / "t.pcap").write_text("no capture at all, but a text of some length")
    return folder


#: Paths, options -> packets by file and number; a text: the message of the error.
_READ: list[tuple[str, Mapping[str, str], list[str] | str]] = [
    ("", {}, ["a1", "a2", "a3", "b1", "c1"]),
    ("", {"mode": "permissive"}, ["a1", "a2", "a3", "b1", "c1"]),
    ("", {"mode": "DROPMALFORMED"}, ["a1", "a3", "b1", "c1"]),
    ("a.pcap", {"mode": "FAILFAST"}, r"a\.pcap: packet 2: truncated"),
    ("c.pcap", {"mode": "FAILFAST"}, r"c\.pcap: the file ends inside a record"),
    ("b.pcap", {"mode": "FAILFAST"}, ["b1"]),
    ("{a,texts/t}.pcap", {"ignoreCorruptFiles": "true"}, ["a1", "a2", "a3"]),
    ("{a,texts/t}.pcap", {}, "t.pcap: starts with 6e6f2063; expected"),
    ("b.pcap,no.pcap,no*.pcap", {"ignoreMissingFiles": "true"}, ["b1"]),
    ("b.pcap,no.pcap", {}, r"no\.pcap: no such file or directory"),
    ("", {"modifiedAfter": "1970-01-01T00:16:40"}, ["b1", "c1"]),
    ("", {"modifiedBefore": "1970-01-01T01:33:20+01:00"}, ["a1", "a2", "a3"]),
    ("{b,c}.pcap", {}, ["b1", "c1"]),
    ("", {"recursiveFileLookup": "true", "pathGlobFilter": "[bd]*"}, ["b1"]),
]


@pytest.mark.parametrize(("paths", "options", "expected"), _READ)
def test_options_are_those_of_sparks_formats(
    folder: Path, spark: SparkSession, paths: str, options: Mapping[str, str], expected: list[str] | str
) -> None:
    register(spark)
    # A comma between braces is part of a glob.
    given = [paths] if "{" in paths else paths.split(",")
    read = spark.read.format("pcap").option("columns", "file,packet").options(**options)
    packets = read.load([f"{folder}/{path}" for path in given])
    if isinstance(expected, str):
        with pytest.raises(PySparkException, match=expected):
            packets.collect()
    else:
        assert sorted(f"{Path(row.file).stem}{row.packet}" for row in packets.collect()) == expected


def test_packets_have_numbers_flags_of_tcp_and_times_to_live(tmp_path: Path, spark: SparkSession) -> None:
    register(spark)
    ether = Ether(src="00:00:00:00:00:02", dst="00:00:00:00:00:01")
    packets = [
        ether / IP(src="10.0.0.1", dst="10.0.0.2", ttl=ttl) / TCP(flags=flags)
        for ttl, flags in ((64, "S"), (63, "SA"), (1, "FPU"))
    ]
    stamped = [(10**9 + 1_500 * number, bytes(packet)) for number, packet in enumerate(packets)]
    (tmp_path / "a.pcap").write_bytes(pcap(stamped))
    rows = spark.read.format("pcap").schema(
        "packet LONG, ttl INT, tcp_flags INT, time TIMESTAMP, time_ns LONG"
    )
    table = rows.load(str(tmp_path)).selectExpr("packet", "ttl", "tcp_flags", "unix_micros(time)", "time_ns")
    assert sorted(tuple(row) for row in table.collect()) == [
        (1, 64, 2, 1_000_000, 10**9),
        (2, 63, 18, 1_000_001, 10**9 + 1_500),
        (3, 1, 41, 1_000_003, 10**9 + 3_000),
    ]


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


def test_a_followed_folder_with_a_limit_of_bytes(tmp_path: Path, spark: SparkSession) -> None:
    register(spark)
    captures = tmp_path / "captures"
    captures.mkdir()
    (captures / "a.pcap").write_bytes(pcap(PACKETS * 10))
    stream = spark.readStream.format("pcap").option("maxBytesPerTrigger", "12k").load(str(captures))
    query = (
        stream.select("packet", "time_ns")
        .writeStream.format("memory")
        .queryName("by_bytes")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    rows = [each["numInputRows"] for each in query.recentProgress if each["numInputRows"]]
    # 400 records of 76 bytes, in batches of about 12,288 bytes.
    assert len(rows) > 2
    assert max(rows) <= 2 * 12_288 // 76
    found = [tuple(row) for row in spark.table("by_bytes").orderBy("packet").collect()]
    assert found == [(at + 1, time_ns) for at, (time_ns, _) in enumerate(PACKETS * 10)]
