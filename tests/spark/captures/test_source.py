"""The data sources through Spark: formats, options, schemas, packets written, errors."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import (
    DataFrame,
    SparkSession,
    functions as F,  # noqa: N812 - the name that PySpark's users know
)

from captures.datasource.formats import captured_frames, register
from tests.support.capture_files import enhanced, interface, pcap, section
from tests.support.run_folder import good_run

pytestmark = pytest.mark.spark

PACKETS = [(10**18 + number * 10**6, bytes(12) + b"\x08\x00" + bytes([number]) * 40) for number in range(200)]
_TEXT = "no capture at all, but a text of some length"


@pytest.fixture(autouse=True)
def _registered(spark: SparkSession) -> None:
    register(spark)


def _rows(table: DataFrame) -> list[str]:
    return sorted(map(str, table.collect()))


def test_packets_of_files_of_every_kind(tmp_path: Path, spark: SparkSession) -> None:
    (tmp_path / "a.pcap").write_bytes(pcap(PACKETS))
    (tmp_path / "b.pcap.gz").write_bytes(gzip.compress(pcap(PACKETS, ">", nano=False)))
    (tmp_path / "c.pcapng").write_bytes(
        section()
        + interface(tsresol=6, link_type=1)
        + interface(tsresol=9, link_type=113)
        + enhanced(7, PACKETS[0][1], length=90)
        + enhanced(8, b"cooked", number=1)
    )
    read = spark.read.format("pcap").option("partitionBytes", 2000)
    packets = read.load([f"{tmp_path}/a.pcap", f"file://{tmp_path}/c.pcapng", f"{tmp_path}/*.gz"])
    assert packets.count() == 402
    (cut,) = packets.where("eth_type = 2048 and cut").collect()
    assert (cut.time_ns, cut.captured, cut.length, bytes(cut.data)) == (7_000, 54, 90, PACKETS[0][1])
    (other,) = packets.where("undecodable is not null").collect()
    assert (other.link_type, other.interface, other.undecodable) == (113, 1, "not_ethernet")
    assert other.eth_type is None
    late = packets.where(F.col("time_ns") >= PACKETS[150][0]).where(F.col("file").endswith("a.pcap"))
    assert [row.time_ns for row in late.orderBy("time_ns").collect()] == [time for time, _ in PACKETS[150:]]
    assert read.option("fromNs", 2 * 10**18).load(str(tmp_path)).count() == 0


def test_frames_of_a_run_and_their_sums(tmp_path: Path, spark: SparkSession) -> None:
    run = good_run().write(tmp_path / "run")
    read = spark.read.format("cbcb")
    frames = read.option("partitions", 3).load(str(run))
    assert frames.schema == captured_frames(spark, run, partitions=2).schema
    assert _rows(frames) == _rows(captured_frames(spark, run, partitions=2))
    keys = ("capture", "type")
    traffic = read.option("view", "traffic").load(str(run))
    sums = traffic.groupBy(*keys).agg(F.sum("frames"), F.sum("bytes"))
    counts = frames.groupBy(*keys).agg(F.count("*"), F.sum("length"))
    assert [*map(tuple, sums.orderBy(*keys).collect())] == [*map(tuple, counts.orderBy(*keys).collect())]
    on_link = frames.where("link = 1 and type in ('MSG', 'RA')")
    assert {row.capture for row in on_link.collect()} == {"link-1-2"}
    of_host = frames.where("kind = 'host' and node = 2")
    assert of_host.count() == frames.where("capture = 'host-2'").count() > 0


def test_several_runs_and_runs_by_pattern_and_uri(tmp_path: Path, spark: SparkSession) -> None:
    one, two = (good_run().write(tmp_path / name) for name in ("run 1", "run-2"))
    (tmp_path / "other").mkdir()
    read = spark.read.format("cbcb").option("columns", "link,node")
    links = read.load(str(one)).groupBy("link", "node").count()
    uri = f"file://{quote(str(one))}"
    assert _rows(read.load(uri).groupBy("link", "node").count()) == _rows(links)
    doubled = links.withColumn("count", F.col("count") * 2)
    for paths in ([str(one), str(two)], [f"{tmp_path}/run*"], [uri, f"{tmp_path}/run-[0-9]"]):
        assert _rows(read.load(paths).groupBy("link", "node").count()) == _rows(doubled)
    with pytest.raises(PySparkException, match=r"run folders and also .*other, which is no run folder"):
        read.load(f"{tmp_path}/*").count()


def test_options_are_those_of_sparks_formats(tmp_path: Path, spark: SparkSession) -> None:
    """Each of them is needed here: for a file that is left out, or an error that is none."""
    contents = {
        # The second packet does not decode.
        "a": pcap([(1, bytes(60)), (2, bytes(9)), (3, bytes(60))]),
        "old": pcap(PACKETS[:1]),
        "unwanted": pcap(PACKETS[:1]),
        "deep/also": pcap(PACKETS[:1]),
        "deep/also_text": _TEXT.encode(),
    }
    (tmp_path / "deep").mkdir()
    for name, content in contents.items():
        path = tmp_path / f"{name}.pcap"
        path.write_bytes(content)
        second = 1000 if name == "old" else 2000
        os.utime(path, (second, second))
    read = spark.read.format("pcap").options(
        columns="file,packet",
        mode="dropMalformed",
        ignoreCorruptFiles="true",
        ignoreMissingFiles="true",
        modifiedAfter="1970-01-01T00:16:40",
        recursiveFileLookup="true",
        pathGlobFilter="[ao]*",
    )
    rows = read.load([str(tmp_path), f"{tmp_path}/no.pcap", f"{tmp_path}/{{x,y}}*.pcap"]).collect()
    assert sorted(f"{Path(row.file).stem}{row.packet}" for row in rows) == ["a1", "a3", "also1"]


def test_a_schema_is_a_projection(tmp_path: Path, spark: SparkSession) -> None:
    run = str(good_run().write(tmp_path / "run"))
    everything = spark.read.format("cbcb").load(run)
    value = "struct<string: string, integer: bigint, double: double, boolean: boolean, number: double>"
    columns = f"type string, attributes map<string, {value}>, time timestamp"
    chosen = spark.read.format("cbcb").schema(columns).load(run)
    expected = everything.select("type", "attributes", "time")
    assert (chosen.dtypes, _rows(chosen)) == (expected.dtypes, _rows(expected))
    # The names alone, in Spark's spelling of the types.
    traffic = spark.read.format("cbcb").option("view", "traffic").schema("frames LONG, link INT").load(run)
    assert traffic.selectExpr("sum(frames)").collect()[0][0] == everything.count()


def test_a_selection_is_written_and_read(tmp_path: Path, spark: SparkSession) -> None:
    (tmp_path / "a.pcap").write_bytes(pcap(PACKETS))
    (tmp_path / "b.pcap").write_bytes(pcap(PACKETS[:7], link_type=101))
    packets = spark.read.format("pcap").load([str(tmp_path / "a.pcap"), str(tmp_path / "b.pcap")])
    chosen = packets.where("packet % 3 = 0")
    target = tmp_path / "selection"
    columns = ("time_ns", "length", "captured", "link_type", "data")
    for mode in ("append", "overwrite"):
        chosen.write.format("pcap").mode(mode).save(str(target))
        found = spark.read.format("pcap").load(str(target)).select(*columns)
        assert _rows(found) == _rows(chosen.select(*columns))
    in_order = chosen.repartition(1).sortWithinPartitions("time_ns")
    in_order.write.format("pcap").mode("append").save(f"{target}2")
    names = sorted(path.name[:10] for path in (tmp_path / "selection2").iterdir())
    assert names == ["part-00000", "part-00001"]


def test_errors_of_users_have_one_line(tmp_path: Path, spark: SparkSession) -> None:
    (tmp_path / "text.pcap").write_text(_TEXT)
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
