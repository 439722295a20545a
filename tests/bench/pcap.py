"""From captures to counts by link, type and second in Parquet: Spark with our source beside other readers.

The captures are made up (`tests.bench.generated_captures`): eight links. Spark's times are of the query, in a
session that has run a small one before: the code is compiled then. The sessions are those of the accounting,
for small and for large runs, and one with Spark's own settings, which are for clusters. Each of the others
counts the same in a dictionary, on one core; the slow ones read a part of the first file. *Raw read* reads
every byte and looks at none.

All columns are decoded by the codec, as before, and by compiled code; written by Spark, as before, and by the
tasks, in one of the sessions. Both ways have equal rows: this is checked on the small captures.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import dpkt
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know
from scapy.utils import PcapReader as ScapyReader

from captures.frames.decoder import FrameDecoder
from captures.frames.identity import CaptureIdentity
from captures.pcap.reader import PcapReader
from captures.source import register, write_parquet
from captures.spark.session import spark_session
from router.wire.header import TYPE_NAMES
from router.wire.layers import CBCB
from tests.bench.generated_captures import FRAME_BYTES, write_captures
from tests.support.compiled_loops import loops
from tests.support.paths import DISSECTOR_FOLDER

_LUA = DISSECTOR_FOLDER / "cbcb.lua"
_RECORD_BYTES = 16 + FRAME_BYTES
SMALL, LARGE, SPARKS_OWN = "small runs", "large runs", "Spark's own"
#: Frames by link, type and second.
Counts = Counter[tuple[int, str, int]]


@contextmanager
def plain_session(master: str, folder: Path) -> Iterator[SparkSession]:
    """A session with Spark's own settings, apart from noise."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = (
        SparkSession.builder.master(master)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.local.dir", str(folder))
        .getOrCreate()
    )
    try:
        yield spark
    finally:
        spark.stop()


def _rows(spark: SparkSession, run: Path) -> DataFrame:
    """Every frame goes through Spark, with the columns that the question needs."""
    frames = spark.read.format("cbcb").option("columns", "link,type,time_ns").load(str(run))
    return frames.groupBy("link", "type", F.expr("time_ns div 1000000000").alias("second")).agg(
        F.count("*").alias("frames")
    )


def _traffic(spark: SparkSession, run: Path) -> DataFrame:
    """Frames are counted while they are decoded; Spark adds up."""
    traffic = spark.read.format("cbcb").option("view", "traffic").load(str(run))
    return traffic.groupBy("link", "type", F.expr("bin_ns div 1000000000").alias("second")).agg(
        F.sum("frames").alias("frames")
    )


def _all_columns(spark: SparkSession, run: Path) -> DataFrame:
    """The decoded frames as they are, attributes and predicates included."""
    return spark.read.format("cbcb").load(str(run))


def _through_spark(query: Callable[[SparkSession, Path], DataFrame]) -> Callable[..., object]:
    """A query whose result Spark writes."""
    return lambda spark, run, target: query(spark, run).write.mode("overwrite").parquet(str(target))


def _by_tasks(spark: SparkSession, run: Path, target: Path) -> None:
    """As `_all_columns`; the tasks write with pyarrow."""
    shutil.rmtree(target, ignore_errors=True)
    write_parquet(spark, "cbcb", run, target)


ALL_COLUMNS, BY_TASKS = "all columns, written by Spark", "all columns, written by the tasks"
#: Maps that are compared one by one.
_COMPARED = 20_000
#: The session that writes all columns.
_WRITING = (2, LARGE)
QUERIES = {
    "rows": _through_spark(_rows),
    "view traffic": _through_spark(_traffic),
    ALL_COLUMNS: _through_spark(_all_columns),
    BY_TASKS: _by_tasks,
}


def _spark(cores: int, settings: str, folder: Path, rounds: int) -> list[tuple[str, float, Path]]:
    """Each query's name, its least seconds and its result."""
    master, results = f"local[{cores}]", []
    session = (
        plain_session(master, folder)
        if settings == SPARKS_OWN
        else spark_session(master, folder / "spark.log", large=settings == LARGE)
    )
    with session as spark:
        register(spark)
        for number, (name, query) in enumerate(QUERIES.items()):
            if name in (ALL_COLUMNS, BY_TASKS) and (cores, settings) != _WRITING:
                continue
            target = folder / f"{master}-{number}"
            query(spark, folder / "small", target)
            if name in (ALL_COLUMNS, BY_TASKS):
                target.rename(folder / name)
            times = []
            for _ in range(1 if name == ALL_COLUMNS else rounds):
                started = time.perf_counter()
                query(spark, folder / "run", target)
                times.append(time.perf_counter() - started)
            results.append((name, min(times), target))
        assert spark.conf.get("spark.sql.shuffle.partitions") == ("200" if settings == SPARKS_OWN else "2")
    return results


def _counts(table: Path) -> Counts:
    counts: Counts = Counter()
    for row in pq.read_table(table).to_pylist():
        counts[row["link"], row["type"], row["second"]] += row["frames"]
    return counts


def _raw(files: list[Path]) -> Counts:
    buffer = bytearray(4 * 1024 * 1024)
    for path in files:
        with path.open("rb", buffering=0) as file:
            while file.readinto(buffer):
                pass
    return Counter()


def _decoded(files: list[Path], *, compiled: bool) -> Counts:
    """Every column of every frame as Arrow arrays, on one core; bodies by compiled code, or by the codec."""
    counts: Counts = Counter()
    with loops(compiled=compiled):
        for path in files:
            link = _link(path)
            decoder = FrameDecoder(CaptureIdentity(path.stem, "link", link=link, u=link, v=link + 1))
            for block in PcapReader(str(path)).blocks():
                batch = decoder.decode(block)
                assert batch.column("undecodable").null_count == batch.num_rows
    return counts


def _assert_equal_rows(folder: Path) -> None:
    """The small captures have the same rows by codec and compiled code, and written by Spark and by tasks."""
    (path, *_) = sorted((folder / "small" / "pcap").glob("*.pcap"))
    tables = []
    for compiled in (False, True):
        with loops(compiled=compiled):
            decoder = FrameDecoder(CaptureIdentity(path.stem, "link", link=0, u=0, v=1))
            tables.append(pa.Table.from_batches(map(decoder.decode, PcapReader(str(path)).blocks())))
    assert tables[0].equals(tables[1])
    written = [pq.read_table(folder / name) for name in (ALL_COLUMNS, BY_TASKS)]
    rows = [table.sort_by([("link", "ascending"), ("number", "ascending")]) for table in written]
    # Column `time` is made of `time_ns`; maps are compared as Python's, a part of them.
    plain = [name for name in rows[0].schema.names if name not in ("time", "attributes")]
    of_spark, of_tasks = (table.select(plain) for table in rows)
    assert of_spark.num_rows > 0 and of_spark.equals(of_tasks.cast(of_spark.schema))
    maps = [table.column("attributes").slice(0, _COMPARED).to_pylist() for table in rows]
    assert maps[0] == maps[1]
    print(f"equal rows: {tables[0].num_rows} decoded both ways, {rows[0].num_rows} written both ways")


def _dpkt(files: list[Path]) -> Counts:
    counts: Counts = Counter()
    for path in files:
        with path.open("rb") as file:
            for seconds, data in dpkt.pcap.Reader(file):
                payload = dpkt.ethernet.Ethernet(data).data
                counts[_link(path), TYPE_NAMES[payload[1]], int(seconds)] += 1
    return counts


def _scapy(files: list[Path]) -> Counts:
    counts: Counts = Counter()
    for path in files:
        with ScapyReader(str(path)) as reader:
            for packet in reader:
                counts[_link(path), TYPE_NAMES[packet[CBCB].type], int(packet.time)] += 1
    return counts


def _tshark(files: list[Path]) -> Counts:
    counts: Counts = Counter()
    for path in files:
        command = ["tshark", "-X", f"lua_script:{_LUA}", "-r", str(path), "-T", "fields"]
        command += ["-e", "frame.time_epoch", "-e", "cbcb.type"]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as tshark:
            assert tshark.stdout is not None
            for line in tshark.stdout:
                stamp, kind = line.split()
                counts[_link(path), TYPE_NAMES[int(kind)], int(stamp.partition(".")[0])] += 1
        assert tshark.returncode == 0
    return counts


def _part(source: Path, frames: int, folder: Path) -> Path:
    """The first frames of a capture, under the same name."""
    folder.mkdir()
    part = folder / source.name
    with source.open("rb") as file:
        part.write_bytes(file.read(24 + frames * _RECORD_BYTES))
    return part


def main(frames: int = 5_000_000, part: int = 50_000, rounds: int = 3) -> None:
    """Prints packets a second, and Spark's on two cores over the others' (the best of `rounds` of the fast
    ones). dpkt reads one file, the slow ones the first `part` frames of it."""
    with tempfile.TemporaryDirectory(prefix="cbcb-bench-") as made:
        folder = Path(made)
        started = time.perf_counter()
        files = write_captures(folder / "run", frames)
        seconds = time.perf_counter() - started
        frames = sum(path.stat().st_size - 24 for path in files) // _RECORD_BYTES
        size = sum(path.stat().st_size for path in files)
        print(f"{frames} frames of {FRAME_BYTES} bytes, {size / 1e6:.0f} MB, made in {seconds:.1f} s")
        write_captures(folder / "small", 400_000)
        piece = _part(files[0], part, folder / "part")
        results: list[tuple[str, float]] = []
        found: dict[str, Counts] = {}
        in_first = frames // len(files)
        readers = (
            ("raw read", _raw, files, frames, rounds),
            ("all columns, codec, 1 core", partial(_decoded, compiled=False), files[:1], in_first, 1),
            ("all columns, compiled, 1 core", partial(_decoded, compiled=True), files, frames, rounds),
            ("dpkt", _dpkt, files[:1], in_first, 1),
            ("Scapy PcapReader", _scapy, [piece], part, 1),
            ("tshark -T fields", _tshark, [piece], part, 1),
        )
        for name, read, inputs, count, times in readers:
            best, found[name] = _best(read, inputs, times)
            results.append((f"{name} ({count} frames)", count / best))
            _show(*results[-1])
        for cores, settings in ((1, SMALL), (2, SMALL), (2, LARGE), (2, SPARKS_OWN)):
            # A JVM keeps what it was started with: one for each.
            with ProcessPoolExecutor(1, get_context("spawn")) as process:
                of_session = process.submit(_spark, cores, settings, folder, rounds).result()
            for name, took, table in of_session:
                if name not in (ALL_COLUMNS, BY_TASKS):
                    found[name] = _counts(table)
                    assert sum(found[name].values()) == frames
                results.append((f"Spark, {name}, {_label(cores, settings)}", frames / took))
                _show(*results[-1])
            _compare(found, _link(files[0]))
        rates = dict(results)
        traffic, rows = (rates[f"Spark, {name}, {_label(2, SMALL)}"] for name in ("view traffic", "rows"))
        print(f"{'':46} {'packets/s':>12} {'traffic is':>11} {'rows are':>9}")
        for name, rate in results:
            print(f"{name:46} {rate:12,.0f} {traffic / rate:10.2f}x {rows / rate:8.2f}x")
        _assert_equal_rows(folder)


def _show(name: str, rate: float) -> None:
    """A line at once: the whole table comes at the end."""
    print(f"{name}: {rate:,.0f}", flush=True)


def _label(cores: int, settings: str) -> str:
    return f"{cores} core{'s'[: cores - 1]}, {settings}"


def _best(read: Callable[[list[Path]], Counts], files: list[Path], rounds: int) -> tuple[float, Counts]:
    best, counts = float("inf"), Counter[tuple[int, str, int]]()
    for _ in range(rounds):
        started = time.perf_counter()
        counts = read(files)
        best = min(best, time.perf_counter() - started)
    return best, counts


def _link(path: Path) -> int:
    """The link that a capture is of; in a line of routers, its lower end."""
    return int(path.stem.split("-")[1])


def _compare(found: dict[str, Counts], first: int) -> None:
    """All count the same, of what they read."""
    assert found["rows"] == found["view traffic"]
    of_first = Counter({key: count for key, count in found["rows"].items() if key[0] == first})
    assert found["dpkt"] == of_first
    assert found["Scapy PcapReader"] == found["tshark -T fields"]
    assert found["tshark -T fields"] <= of_first
