"""Captures as a Spark data source: `spark.read.format("cbcb_pcap").option("run", FOLDER).load()`.

One row a captured frame; the columns are `captures.decode.COLUMNS`. The source must be registered with the
session: `spark.dataSource.register(CbcbPcapSource)`. On a cluster the run folder must be reachable under the
same path by every worker, and the packages `captures` and `router` shipped to them (`captures.session`).

Options:
    run: the run folder (holds capture.json, topology.json and the capture files).
    partitions: into how many groups of files of about equal size the captures are split (default 4).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from captures.decode import SPARK_SCHEMA, CaptureIdentity, decode_block
from captures.pcap import PcapReader
from captures.rundir import RunFolder

NAME = "cbcb_pcap"
DEFAULT_PARTITIONS = 4


class CaptureGroup(InputPartition):
    """The files that one task reads."""

    def __init__(self, files: list[tuple[str, CaptureIdentity]]) -> None:
        super().__init__(None)
        self.files = files


class CbcbPcapSource(DataSource):
    """See the module."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return SPARK_SCHEMA

    def reader(self, schema: object) -> DataSourceReader:  # noqa: ARG002 - Spark's signature
        run = self.options.get("run")
        if not run:
            raise ValueError(f"{NAME}: option run is missing; expected the path of a run folder")
        return _Reader(Path(run), int(self.options.get("partitions", DEFAULT_PARTITIONS)))


class _Reader(DataSourceReader):
    def __init__(self, run: Path, groups: int) -> None:
        self.run = run
        self.groups = groups

    def partitions(self) -> Sequence[InputPartition]:
        files = [
            (str(self.run / capture.file), capture.identity) for capture in RunFolder(self.run).captures()
        ]
        sizes = [Path(path).stat().st_size for path, _ in files]
        return [CaptureGroup([files[i] for i in group]) for group in balance(sizes, self.groups)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, CaptureGroup)
        for path, identity in partition.files:
            for block in PcapReader(Path(path)).blocks():
                yield decode_block(block, identity)


def balance(sizes: Sequence[int], groups: int) -> list[list[int]]:
    """Splits indices into at most `groups` non-empty groups of about equal total size, largest first."""
    loads = [0] * max(1, groups)
    members: list[list[int]] = [[] for _ in loads]
    for index in sorted(range(len(sizes)), key=lambda i: (-sizes[i], i)):
        lightest = loads.index(min(loads))
        members[lightest].append(index)
        # Opening a file costs something too, so that empty files are spread as well.
        loads[lightest] += sizes[index] + 1
    return [group for group in members if group]
