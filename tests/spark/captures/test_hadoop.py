"""Captures at Hadoop paths, on a file system that only Spark's JVM knows: viewfs."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from captures.datasource import hadoop
from captures.datasource.hadoop import read_hadoop
from captures.datasource.options import OptionError
from captures.datasource.views import PACKETS, View
from captures.frames.index import write_index
from captures.source import register
from tests.support.capture_files import pcap
from tests.support.run_folder import good_run


def _mount(spark: SparkSession, folder: Path) -> str:
    """A URI of the folder, in a file system of its own: Hadoop keeps those it has opened, by their names."""
    authority = f"of{zlib.crc32(str(folder).encode())}"
    settings = spark.sparkContext._jsc.hadoopConfiguration()
    settings.set(f"fs.viewfs.mounttable.{authority}.link./mounted", f"file://{folder}")
    return f"viewfs://{authority}/mounted"


def _mount_as(spark: SparkSession, scheme: str, folder: Path) -> str:
    """A URI of the folder with another scheme, whose class Hadoop looks up (`fs.SCHEME.impl`)."""
    authority = f"of{zlib.crc32(str(folder).encode())}"
    settings = spark.sparkContext._jsc.hadoopConfiguration()
    settings.set(f"fs.{scheme}.impl", "org.apache.hadoop.fs.viewfs.ViewFileSystemOverloadScheme")
    settings.set(f"fs.viewfs.mounttable.{authority}.link./mounted", f"file://{folder}")
    return f"{scheme}://{authority}/mounted"


def _rows(frames: DataFrame) -> list[str]:
    return sorted(str(tuple(row)) for row in frames.collect())


def test_a_run_at_a_hadoop_path_reads_as_the_run(tmp_path: Path, spark: SparkSession) -> None:
    run = good_run().write(tmp_path / "run")
    register(spark)
    uri = _mount(spark, run / "pcap")
    found = read_hadoop(spark, uri, "cbcb", run=run)
    expected = spark.read.format("cbcb").load(str(run))
    assert found.schema == expected.schema
    assert _rows(found) == _rows(expected) != []
    traffic = read_hadoop(spark, f"{uri}/link-*.pcap", "cbcb", run=run, view="traffic", columns="frames,kind")
    links = expected.where("kind = 'link'").count()
    assert traffic.where("kind = 'link'").selectExpr("sum(frames)").collect()[0][0] == links > 0
    packets = read_hadoop(spark, uri, pathGlobFilter="host-*", columns="file,offset")
    assert {row.file for row in packets.collect()} == {f"{uri}/host-{node}.pcap" for node in (0, 1, 2)}


@pytest.mark.parametrize("scheme", ["s3a", "dbfs", "abfss"])
def test_hadoop_opens_any_scheme_that_has_a_class(tmp_path: Path, spark: SparkSession, scheme: str) -> None:
    run = good_run().write(tmp_path / "run")
    register(spark)
    uri = _mount_as(spark, scheme, run / "pcap")
    found = read_hadoop(spark, uri, "cbcb", run=run)
    assert _rows(found) == _rows(spark.read.format("cbcb").load(str(run))) != []
    packets = read_hadoop(spark, f"{uri}/host-{{0,1}}.pcap", columns="file")
    assert {row.file for row in packets.collect()} == {f"{uri}/host-{node}.pcap" for node in (0, 1)}
    with pytest.raises(FileNotFoundError, match=f"{uri}/none: no such file or directory"):
        read_hadoop(spark, f"{uri}/none")


def test_of_a_directory_the_captures_are_read(tmp_path: Path, spark: SparkSession) -> None:
    content = pcap([(1, b"x" * 60)])
    (tmp_path / "a.pcap").write_bytes(content)
    (tmp_path / "b.pcap.gz").write_bytes(gzip.compress(pcap([(2, b"x" * 60)])))
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "c.cap").write_bytes(pcap([(3, b"x" * 60)]))
    for hidden in (".snapshot", "_temporary"):
        (tmp_path / "inside" / hidden).mkdir()
        (tmp_path / "inside" / hidden / "c.cap").write_bytes(content)
    (tmp_path / "notes.txt").write_text("no capture")
    (tmp_path / "odd.name").write_bytes(content)
    write_index(tmp_path / "a.pcap")
    uri = _mount(spark, tmp_path)

    def times(path: str, **options: str) -> list[int]:
        return sorted(
            row.time_ns for row in read_hadoop(spark, path, run=None, columns="time_ns", **options).collect()
        )

    assert times(uri) == [1, 2]
    assert times(uri, RecursiveFileLookup="true") == [1, 2, 3]
    assert times(uri, pathglobfilter="*.gz") == [2]
    # The index of a capture is none.
    assert times(f"{uri}/a.*") == times(uri, pathglobfilter="a*") == [1]
    assert times(f"{uri}/odd.*") == times(f"{uri}/odd.name") == [1]
    assert times(f"{uri}/{{odd,even}}.[^x]*") == [1]
    # A glob that matches a directory stands for the captures in it; a name may look like a glob.
    assert times(f"{uri}/in*") == [3]
    (tmp_path / "like[1].pcap").write_bytes(pcap([(4, b"x" * 60)]))
    assert times(uri) == [1, 2, 4]
    assert times(f"{uri}/like[1].pcap") == [4]
    (tmp_path / "empty").mkdir()
    assert times(f"{uri}/empty") == []


def test_bad_files_are_named_by_their_uri(tmp_path: Path, spark: SparkSession) -> None:
    (tmp_path / "cut.pcap").write_bytes(pcap([(1, b"x" * 60), (2, b"y" * 60)])[:-1])
    (tmp_path / "text.pcap").write_text("no capture at all, but a text of some length")
    uri = _mount(spark, tmp_path)
    with pytest.raises(PySparkException, match=f"{uri}/text.pcap: starts with 6e6f2063; expected"):
        read_hadoop(spark, uri).count()
    assert read_hadoop(spark, uri, ignoreCorruptFiles="true", columns="time_ns").collect() == [(1,)]
    files = {row.file: row for row in read_hadoop(spark, uri, view="files").collect()}
    assert files[f"{uri}/cut.pcap"].defect == "the file ends inside a record, which starts at byte 100"
    assert files[f"{uri}/text.pcap"].error.startswith(f"{uri}/text.pcap: starts with 6e6f2063; expected")


def test_a_warning_names_the_uri() -> None:
    content = pcap([(1, b"x" * 60), (2, b"y" * 60)])[:-1]
    view = View(PACKETS, ("time_ns",))
    with pytest.warns(UserWarning, match="^viewfs://x/cut.pcap: the file ends inside a record"):
        batches = list(hadoop._rows("viewfs://x/cut.pcap", pa.py_buffer(content), view, {}))
    assert [batch.num_rows for batch in batches] == [1]


def test_wrong_arguments_are_told(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = _mount(spark, tmp_path)
    with pytest.raises(OptionError, match="source: 'csv'; expected pcap or cbcb"):
        read_hadoop(spark, uri, "csv")
    for name in ("partitions", "Paths"):
        with pytest.raises(OptionError, match=f"option {name}: expected one path, whose files are not split"):
            read_hadoop(spark, uri, run=None, **{name: "2"})
    with pytest.raises(OptionError, match="pcap: unknown option colums; expected one of "):
        read_hadoop(spark, uri, colums="file")
    for missing in (f"{uri}/none", f"{uri}/*.cap"):
        with pytest.raises(FileNotFoundError, match="no such file or directory, or a glob that matches none"):
            read_hadoop(spark, missing)
    with pytest.raises(OSError, match="unheard://x/y: No FileSystem for scheme"):
        read_hadoop(spark, "unheard://x/y")
    (tmp_path / "a.pcap").write_bytes(pcap([(1, b"x" * 60)]))
    run = good_run().write(tmp_path / "run")
    with pytest.raises(ValueError, match=f"{uri}: no file is named as a capture of {run}; expected "):
        read_hadoop(spark, uri, "cbcb", run=run)
    assert 10**6 < hadoop._most_bytes(spark) < 10**9
    monkeypatch.setattr(hadoop, "_HEAP_OF_FILE", 10**12)
    with pytest.raises(ValueError, match=f"{uri}/a.pcap: 100 bytes; expected at most 0, a 10"):
        read_hadoop(spark, uri)
