"""Captures at Hadoop paths, on a file system that only Spark's JVM knows: viewfs."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from captures.hadoop import read_hadoop
from captures.source import register
from tests.spark.run_folder import good_run
from tests.unit.capture_files import pcap


def _mount(spark: SparkSession, folder: Path) -> str:
    """A URI of the folder, in a file system of its own: Hadoop keeps those it has opened, by their names."""
    authority = f"of{zlib.crc32(str(folder).encode())}"
    settings = spark.sparkContext._jsc.hadoopConfiguration()
    settings.set(f"fs.viewfs.mounttable.{authority}.link./mounted", f"file://{folder}")
    return f"viewfs://{authority}/mounted"


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


def test_bad_files_are_named_by_their_uri(tmp_path: Path, spark: SparkSession) -> None:
    (tmp_path / "cut.pcap").write_bytes(pcap([(1, b"x" * 60), (2, b"y" * 60)])[:-1])
    (tmp_path / "text.pcap").write_text("no capture at all, but a text of some length")
    uri = _mount(spark, tmp_path)
    with pytest.raises(PySparkException, match=f"{uri}/text.pcap: starts with 6e6f2063; expected"):
        read_hadoop(spark, uri).count()
    assert read_hadoop(spark, uri, onError="skip", columns="time_ns").collect() == [(1,)]
    files = {row.file: row for row in read_hadoop(spark, uri, view="files").collect()}
    assert files[f"{uri}/cut.pcap"].defect == "the file ends inside a record, which starts at byte 100"
    assert "expected the magic number" in files[f"{uri}/text.pcap"].error


def test_wrong_arguments_are_told(tmp_path: Path, spark: SparkSession) -> None:
    uri = _mount(spark, tmp_path)
    with pytest.raises(ValueError, match="source: 'csv'; expected pcap or cbcb"):
        read_hadoop(spark, uri, "csv")
    with pytest.raises(ValueError, match="option partitions: files at Hadoop paths are not split"):
        read_hadoop(spark, uri, partitions="2")
    with pytest.raises(ValueError, match="pcap: unknown option colums; expected one of "):
        read_hadoop(spark, uri, colums="file")
    with pytest.raises(AnalysisException, match="Path does not exist"):
        read_hadoop(spark, f"{uri}/none")
