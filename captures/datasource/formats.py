"""Captures in Spark: the packets of any capture (`pcap`), and decoded CBCB frames (`cbcb`).

    register(spark)
    spark.read.format("pcap").load("captures/*.pcap")
    spark.read.format("cbcb").load(RUN)
    spark.readStream.format("cbcb").load(RUN)

docs/reference/pcap-source.md describes the options and the columns. The accounting
uses `captured_frames`: Spark starts Python processes to register a source and to plan each read of it, which
take longer than the captures of a small run.

On a cluster, the driver and every worker must reach the files under the same path or URI; `register` ships
the code to the workers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.types import StructType

from captures.datasource import views
from captures.datasource.opening import view_of
from captures.datasource.options import OptionError, ReadOptions, errors_in_one_line, read_options
from captures.datasource.packet_writer import PacketWriter
from captures.datasource.streaming import GrowingCaptures, PartGroup
from captures.frames.columns import COLUMNS, spark_type
from captures.frames.parts import DEFAULT_PART_BYTES, FilePart, group_parts, split_files
from captures.pcap.listing import FileEntry
from captures.rundir import RunLayout
from captures.rundir.capture_list import capture_paths
from captures.spark.internals import activate, classic_context
from captures.spark.session import ship
from captures.spark.workers import freeze_new_imports

DEFAULT_PARTITIONS = 4


def register(spark: SparkSession) -> None:
    """Makes the formats `pcap` and `cbcb` known to a session, and ships their code to its workers."""
    ship(spark)
    spark.dataSource.register(PcapSource)
    spark.dataSource.register(CbcbSource)
    if classic_context(spark) is not None:
        activate(spark)


def captured_frames(spark: SparkSession, run: Path, partitions: int = DEFAULT_PARTITIONS) -> DataFrame:
    """The captured frames of a finished run, read in at most `partitions` tasks.

    Raises:
        RunFolderError: the list of captures or the topology is missing or malformed.
        PcapError: a capture file that is large enough to be split is no capture.
        OSError: a capture file is missing.
    """
    captures = capture_paths(RunLayout(run.resolve()))
    view = views.View(ReadOptions(view=views.FRAMES, columns=tuple(COLUMNS)), captures)
    files = [FileEntry(path, Path(path).stat().st_size) for path in captures]
    groups = group_parts(split_files(files, DEFAULT_PART_BYTES), partitions)

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from view.read_all(groups[number])
        freeze_new_imports()

    # Each partition holds one number: the index of a group.
    count = max(1, len(groups))
    return spark.range(0, len(groups), 1, count).mapInArrow(
        read, views.spark_schema(views.CBCB_VIEWS, views.FRAMES, view.columns)
    )


class CaptureReader(DataSourceReader):
    """Reads finished captures."""

    def __init__(self, view: views.View) -> None:
        self._view = view

    def partitions(self) -> Sequence[PartGroup]:
        """The parts that can hold rows within the bounds, in groups of about equal size."""
        options, view = self._view.options, self._view
        with errors_in_one_line():
            files = [entry for entry in options.files() if view.needs(FilePart(entry.path))]
            total = sum(entry.size for entry in files)
            part_bytes = options.part_bytes(total)
            if view.name == views.FILES:
                parts = [FilePart(entry.path, size=entry.size) for entry in files]
            else:
                parts = split_files(files, part_bytes, skip_bad=options.ignore_corrupt_files)
        parts = [part for part in parts if view.needs(part)]
        groups = max(options.partitions, -(-total // part_bytes))
        # Where a source returns no partition, Spark makes one of its own.
        return [PartGroup(group) for group in group_parts(parts, groups)] or [PartGroup([])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of the parts of a group."""
        assert isinstance(partition, PartGroup)
        with errors_in_one_line():
            yield from self._view.read_all(partition.parts)
        freeze_new_imports()


class PcapSource(DataSource):
    """Format `pcap`: the packets of any capture."""

    _views: views.Views = views.PCAP_VIEWS

    @classmethod
    def name(cls) -> str:
        return "pcap"

    def schema(self) -> str:
        with errors_in_one_line():
            options = read_options(self.name(), self.options, self._views)
            return views.spark_schema(self._views, options.view, options.columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        with errors_in_one_line():
            return CaptureReader(self._of_schema(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        with errors_in_one_line():
            view = self._of_schema(schema)
            if view.name == views.FILES:
                raise OptionError(f"{self.name()}: option view: {views.FILES} cannot be streamed")
            return GrowingCaptures(replace(view, growing=True))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        with errors_in_one_line():
            if self._views is not views.PCAP_VIEWS:
                raise OptionError(
                    f"{self.name()}: frames cannot be written; expected packets and format pcap"
                )
            return PacketWriter(self.options, schema, overwrite=overwrite)

    def _of_schema(self, schema: StructType) -> views.View:
        """The table with the columns of a schema: the user's, or that of `schema`.

        Raises:
            OptionError: the table has no such column, or one of another type.
        """
        view = view_of(self.name(), self.options)
        known = self._views[view.name]
        for column in schema.fields:
            if column.name not in known:
                raise OptionError(
                    f"{self.name()}: schema: no column {column.name!r} in view {view.name}; "
                    f"expected some of {', '.join(known)}"
                )
            expected, found = spark_type(known[column.name][0]), column.dataType.simpleString()
            if found != expected.replace(" ", ""):
                raise OptionError(f"{self.name()}: schema: {column.name} is {found}; expected {expected}")
        return view.changed(columns=tuple(column.name for column in schema.fields))


class CbcbSource(PcapSource):
    """Format `cbcb`: the decoded frames of run folders, or of any captures."""

    _views = views.CBCB_VIEWS

    @classmethod
    def name(cls) -> str:
        return "cbcb"
