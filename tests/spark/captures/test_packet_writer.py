"""A selection of packets, written through Spark as captures and read again."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from captures.datasource.formats import register
from tests.support.capture_files import pcap

pytestmark = pytest.mark.spark

PACKETS = [(10**18 + number, bytes([number]) * 60) for number in range(100)]


def test_a_selection_is_written_and_read(tmp_path: Path, spark: SparkSession) -> None:
    register(spark)
    (tmp_path / "a.pcap").write_bytes(pcap(PACKETS))
    (tmp_path / "b.pcap").write_bytes(pcap(PACKETS[:7], link_type=101))
    packets = spark.read.format("pcap").load([str(tmp_path / "a.pcap"), str(tmp_path / "b.pcap")])
    chosen = packets.where("packet % 3 = 0")
    target = str(tmp_path / "selection")
    for mode in ("append", "overwrite"):
        chosen.write.format("pcap").mode(mode).save(target)
        columns = ("time_ns", "length", "captured", "link_type", "data")
        found = spark.read.format("pcap").load(target).select(*columns)
        assert sorted(map(str, found.collect())) == sorted(map(str, chosen.select(*columns).collect()))
    chosen.repartition(1).sortWithinPartitions("time_ns").write.format("pcap").mode("append").save(
        f"{target}2"
    )
    assert sorted(path.name[:10] for path in (tmp_path / "selection2").iterdir()) == [
        "part-00000",
        "part-00001",
    ]
    with pytest.raises(PySparkException, match="expected the columns data, and time_ns or time"):
        packets.select("packet").write.format("pcap").mode("append").save(target)
