"""Tables of captures as Parquet: the same rows as the data sources give."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from captures.datasource.options import OptionError
from captures.source import register, write_parquet
from tests.support.run_folder import good_run

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("view", ["frames", "traffic"])
def test_parquet_has_the_rows_and_columns_of_the_source(
    tmp_path: Path, spark: SparkSession, view: str
) -> None:
    register(spark)
    run = good_run().write(tmp_path / "run")
    expected = spark.read.format("cbcb").option("view", view).load(str(run))
    target = tmp_path / "a table"
    rows = write_parquet(spark, "cbcb", run, target, {"view": view, "partitions": "3"})
    found = spark.read.parquet(str(target))
    assert rows == expected.count() > 0
    assert found.dtypes == expected.dtypes
    assert sorted(map(str, found.collect())) == sorted(map(str, expected.collect()))
    assert sorted(path.name for path in target.iterdir() if not path.name.startswith("part-")) == ["_SUCCESS"]


def test_parquet_is_written_by_uri_and_never_over_other_files(tmp_path: Path, spark: SparkSession) -> None:
    run = good_run().write(tmp_path / "run")
    target = f"file://{tmp_path}/table"
    write_parquet(spark, "cbcb", [str(run)], target, {"columns": "type,predicate"}, compression="zstd")
    assert pq.read_table(tmp_path / "table").column_names == ["type", "predicate"]
    with pytest.raises(FileExistsError, match="the folder contains files; expected none"):
        write_parquet(spark, "cbcb", run, target)
    with pytest.raises(OptionError, match="compression 'zip'; expected one of none, snappy, "):
        write_parquet(spark, "cbcb", run, tmp_path / "other", compression="zip")


def test_a_capture_without_rows_gives_an_empty_table(tmp_path: Path, spark: SparkSession) -> None:
    run = good_run().write(tmp_path / "run")
    assert write_parquet(spark, "cbcb", run, tmp_path / "table", {"untilNs": "1"}) == 0
    assert pq.read_table(tmp_path / "table").num_rows == 0


def test_a_failed_task_leaves_no_table(tmp_path: Path, spark: SparkSession) -> None:
    (tmp_path / "text.pcap").write_text("no capture at all, but a text of some length")
    with pytest.raises(Exception, match="starts with 6e6f2063; expected"):
        write_parquet(spark, "cbcb", tmp_path / "text.pcap", tmp_path / "table")
    assert list((tmp_path / "table").iterdir()) == []
