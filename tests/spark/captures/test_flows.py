"""The text of the flows on Spark."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from captures.datasource.formats import register
from captures.datasource.opening import FLOWS_SQL
from tests.support.conversations import FLOWS, write_conversations

pytestmark = pytest.mark.spark


def test_flows_of_two_files(tmp_path: Path, spark: SparkSession) -> None:
    register(spark)
    write_conversations(tmp_path)
    spark.read.format("pcap").load(str(tmp_path)).createOrReplaceTempView("packets")
    assert [tuple(row) for row in spark.sql(FLOWS_SQL).collect()] == FLOWS
