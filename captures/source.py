"""Captures in Spark: one row a captured frame; the columns are `captures.decode.COLUMNS`.

`captured_frames` is what the accounting uses. The same is a data source for others' jobs: after
`spark.dataSource.register(CbcbPcapSource)`, `spark.read.format("cbcb_pcap").option("run", FOLDER).load()`.
Spark starts Python processes to register such a source and to plan each read of it; on a small run they take
longer than the captures do.

On a cluster the run folder must be reachable under the same path by every worker, and the packages `captures`
and `router` shipped to them (`captures.session`).

Options of the data source:
    run: the run folder (holds capture.json, topology.json and the capture files).
    partitions: into how many groups of files of about equal size the captures are split (default 4).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from captures.decode import SPARK_SCHEMA, CaptureIdentity, FrameDecoder
from captures.pcap import PcapReader
from captures.rundir import RunFolder

NAME = "cbcb_pcap"
DEFAULT_PARTITIONS = 4


#: Files that one task reads, each with what it is a capture of.
Group = list[tuple[str, CaptureIdentity]]


def captured_frames(spark: SparkSession, run: Path, partitions: int = DEFAULT_PARTITIONS) -> DataFrame:
    """The captured frames of a run, read in at most `partitions` tasks.

    Raises:
        RunFolderError: capture.json or topology.json is missing or bad.
        OSError: a capture file is missing.
    """
    groups = capture_groups(run.resolve(), partitions)

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from read_group(groups[number])

    # One number, the index of its group, in each partition.
    count = max(1, len(groups))
    return spark.range(0, len(groups), 1, count).mapInArrow(read, SPARK_SCHEMA)


def capture_groups(run: Path, groups: int) -> list[Group]:
    """The captures of a run folder in at most `groups` groups of files of about equal size.

    Raises:
        RunFolderError, OSError: as `captured_frames`.
    """
    files = [(str(run / capture.file), capture.identity) for capture in RunFolder(run).captures()]
    sizes = [Path(path).stat().st_size for path, _ in files]
    return [[files[i] for i in group] for group in balance(sizes, groups)]


def read_group(group: Group) -> Iterator[pa.RecordBatch]:
    """The frames of the files of a group, with the columns of `captures.decode.SCHEMA`."""
    for path, identity in group:
        decoder = FrameDecoder(identity)
        for block in PcapReader(Path(path)).blocks():
            yield decoder.decode(block)


class CaptureGroup(InputPartition):
    """The files that one task reads."""

    def __init__(self, files: Group) -> None:
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
        return [CaptureGroup(group) for group in capture_groups(self.run, self.groups)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, CaptureGroup)
        return read_group(partition.files)


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
