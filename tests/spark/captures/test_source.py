"""The data sources through Spark: formats, views, filters pushed down, files that are no captures."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

from captures.datasource.formats import PUSHDOWN, register
from captures.frames.index import write_index
from tests.support.capture_files import enhanced, interface, pcap, section
from tests.support.run_folder import good_run

pytestmark = pytest.mark.spark

PACKETS = [(10**18 + number * 10**6, bytes(12) + b"\x08\x00" + bytes([number]) * 40) for number in range(200)]


@pytest.fixture(params=["false", "true"])
def pushing(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    """The session, with filters that do not reach the sources, and with filters that do."""
    spark.conf.set(PUSHDOWN, request.param)
    register(spark, pushdown=request.param == "true")
    yield spark
    spark.conf.unset(PUSHDOWN)
    register(spark)


def test_packets_of_files_of_every_kind(tmp_path: Path, pushing: SparkSession) -> None:
    (tmp_path / "a.pcap").write_bytes(pcap(PACKETS))
    (tmp_path / "b.pcap.gz").write_bytes(gzip.compress(pcap(PACKETS, ">", nano=False)))
    (tmp_path / "c.pcapng").write_bytes(
        section()
        + interface(tsresol=6, link_type=1)
        + interface(tsresol=9, link_type=113)
        + enhanced(7, PACKETS[0][1], length=90)
        + enhanced(8, b"cooked", number=1)
    )
    write_index(tmp_path / "a.pcap", 2000)
    read = pushing.read.format("pcap").option("partitionBytes", 2000)
    packets = read.load([f"{tmp_path}/a.pcap", f"file://{tmp_path}/c.pcapng", f"{tmp_path}/*.gz"])
    assert packets.count() == 402
    one = packets.where("eth_type = 2048 and cut").collect()
    assert [(row.time_ns, row.captured, row.length, bytes(row.data)) for row in one] == [
        (7_000, 54, 90, PACKETS[0][1])
    ]
    (other,) = packets.where("undecodable is not null").collect()
    assert (other.link_type, other.interface, other.undecodable, other.eth_type) == (
        113,
        1,
        "not_ethernet",
        None,
    )
    late = packets.where(F.col("time_ns") >= PACKETS[150][0]).where(F.col("file").endswith("a.pcap"))
    assert [row.time_ns for row in late.orderBy("time_ns").collect()] == [time for time, _ in PACKETS[150:]]
    # Nothing is left: the filters rule out every part.
    assert packets.where(F.col("time_ns") > 2 * 10**18).count() == 0
    assert packets.where("file = 'none'").count() == 0


def test_filters_of_one_query_are_not_those_of_another(tmp_path: Path, spark: SparkSession) -> None:
    """Spark keeps what was pushed with what was loaded: only where it is asked for do filters reach us."""
    (tmp_path / "a.pcap").write_bytes(pcap(PACKETS))
    condition = F.col("time_ns") < PACKETS[3][0]
    with pytest.raises(ValueError, match=PUSHDOWN):
        register(spark, pushdown=True)
    spark.conf.set(PUSHDOWN, "true")
    try:
        counted = []
        for pushdown in (False, True):
            register(spark, pushdown=pushdown)
            packets = spark.read.format("pcap").load(str(tmp_path))
            both = packets.where(condition).union(packets)
            tables = (packets, packets.where(condition), packets, both)
            counted.append([table.count() for table in tables])
    finally:
        spark.conf.unset(PUSHDOWN)
        register(spark)
    assert counted[0] == [200, 3, 200, 203]
    # Should this fail with a new Spark because it is right too: `pushdown` can be the default then.
    assert counted[1] == [200, 3, 3, 6]


def _rows(table: DataFrame) -> list[str]:
    return sorted(str(row) for row in table.collect())


@pytest.mark.parametrize("columns", [None, "offset", "time_ns,file"])
def test_packets_of_a_time(tmp_path: Path, spark: SparkSession, columns: str | None) -> None:
    register(spark)
    odd = [*PACKETS[100:], *PACKETS[:100], *PACKETS[50:60]]  # a clock that was set back
    (tmp_path / "a.pcap").write_bytes(pcap(odd))
    (tmp_path / "b.pcapng").write_bytes(section() + interface(tsresol=9) + enhanced(7, PACKETS[0][1]))
    read = spark.read.format("pcap").option("partitionBytes", 2000)
    if columns is not None:
        read = read.option("columns", columns)
    first, until = PACKETS[20][0], PACKETS[120][0]
    wanted = read.option("fromNs", first).option("untilNs", until).load(str(tmp_path))
    everything = spark.read.format("pcap").load(str(tmp_path))
    inside = everything.where(f"time_ns >= {first} and time_ns < {until}").select(*wanted.columns)
    assert wanted.count() == inside.count() == 110
    assert _rows(wanted) == _rows(inside)
    assert wanted.where("1 = 0").count() == 0


@pytest.mark.parametrize("columns", [None, "seq,issuer", "type,time_ns"])
def test_frames_of_a_time_of_types_and_of_links(
    tmp_path: Path, spark: SparkSession, columns: str | None
) -> None:
    register(spark)
    run = str(good_run().write(tmp_path / "run"))
    everything = spark.read.format("cbcb").load(run)
    times = [row.time_ns for row in everything.select("time_ns").orderBy("time_ns").collect()]
    first, until = times[len(times) // 4], times[3 * len(times) // 4]
    given = {} if columns is None else {"columns": columns}
    for options, condition in (
        ({"fromNs": first, "untilNs": until}, f"time_ns >= {first} and time_ns < {until}"),
        ({"types": "MSG, RA"}, "type in ('MSG', 'RA')"),
        ({"links": "0, 1"}, "link in (0, 1)"),
        (
            {"untilNs": until, "types": "MSG", "links": "1"},
            f"time_ns < {until} and type = 'MSG' and link = 1",
        ),
    ):
        wanted = spark.read.format("cbcb").options(**given, **options).load(run)
        expected = everything.where(condition).select(*wanted.columns)
        assert 0 < expected.count() < everything.count()
        assert _rows(wanted) == _rows(expected)
        traffic = spark.read.format("cbcb").option("view", "traffic").options(**options).load(run)
        sums = traffic.groupBy("capture", "type").agg(F.sum("frames"), F.sum("bytes"))
        frames = everything.where(condition).groupBy("capture", "type").agg(F.count("*"), F.sum("length"))
        assert [tuple(row) for row in sums.orderBy("capture", "type").collect()] == [
            tuple(row) for row in frames.orderBy("capture", "type").collect()
        ]


def test_several_runs_and_runs_by_pattern_and_uri(tmp_path: Path, spark: SparkSession) -> None:
    register(spark)
    one, two = (good_run().write(tmp_path / name) for name in ("run 1", "run-2"))
    (tmp_path / "other").mkdir()
    read = spark.read.format("cbcb").option("columns", "link,node")
    alone = read.load(str(one))
    links = alone.groupBy("link", "node").count()
    assert links.where("link is not null").count() == 2
    assert links.where("node is not null").count() > 2
    uri = f"file://{quote(str(one))}"
    assert _rows(read.load(uri).groupBy("link", "node").count()) == _rows(links)
    doubled = links.withColumn("count", F.col("count") * 2)
    for paths in ([str(one), str(two)], [f"{tmp_path}/run*"], [uri, f"{tmp_path}/run-[0-9]"]):
        assert _rows(read.load(paths).groupBy("link", "node").count()) == _rows(doubled)
    with pytest.raises(PySparkException, match=r"run folders and also .*other, which is no run folder"):
        read.load(f"{tmp_path}/*").count()


def test_health_of_files_and_those_that_are_no_captures(tmp_path: Path, spark: SparkSession) -> None:
    register(spark)
    content = pcap(PACKETS)
    (tmp_path / "cut.pcap").write_bytes(content[:-1])
    (tmp_path / "text.pcap").write_text("no capture at all, but a text of some length")
    read = spark.read.format("pcap")
    with pytest.raises(PySparkException, match="starts with 6e6f2063; expected"):
        read.load(str(tmp_path)).count()
    assert read.option("ignoreCorruptFiles", "true").load(str(tmp_path)).count() == 199
    rows = {Path(row.file).name: row for row in read.option("view", "files").load(str(tmp_path)).collect()}
    assert rows["cut.pcap"].packets == 199
    assert rows["cut.pcap"].first_ns == PACKETS[0][0]
    start = len(content) - 16 - len(PACKETS[-1][1])
    assert rows["cut.pcap"].defect == f"the file ends inside a record, which starts at byte {start}"
    assert (rows["text.pcap"].packets, rows["cut.pcap"].error) == (0, None)
    assert "expected the magic number" in rows["text.pcap"].error


def test_traffic_is_the_sum_of_the_frames(tmp_path: Path, pushing: SparkSession) -> None:
    run = str(good_run().write(tmp_path / "run"))
    traffic = pushing.read.format("cbcb").option("view", "traffic").option("binSeconds", "0.01").load(run)
    keys = ["capture", "kind", "link", "node", "direction", "from_node", "to_node", "type"]
    sums = traffic.groupBy(*keys, "bin_ns").agg(F.sum("frames"), F.sum("bytes"), F.sum("frames_undecodable"))
    frames = pushing.read.format("cbcb").load(run)
    expected = frames.groupBy(*keys, F.expr("time_ns div 10000000 * 10000000").alias("bin_ns")).agg(
        F.count("*"), F.sum("length"), F.count("undecodable")
    )
    rows = [sorted(str(tuple(row)) for row in table.collect()) for table in (sums, expected)]
    assert len(rows[0]) > 10
    assert rows[0] == rows[1]
    on_link = frames.where("link = 1 and type in ('MSG', 'RA')")
    assert {row.capture for row in on_link.collect()} == {"link-1-2"}
    assert (
        frames.where("kind = 'host' and node = 2").count() == frames.where("capture = 'host-2'").count() > 0
    )
