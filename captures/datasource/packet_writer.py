"""Writing packets as capture files: `packets.write.format("pcap").mode("append").save(FOLDER)`."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from captures.datasource.options import OptionError, errors_in_one_line
from captures.pcap import LINKTYPE_ETHERNET, file_header, record_header
from captures.pcap.listing import is_capture_name
from captures.pcap.opening import place_of

#: Column -> the type that it must have. `data` and a time are needed.
_TYPES = {"data": "binary", "time_ns": "bigint", "time": "timestamp", "length": "bigint", "link_type": "int"}


@dataclass
class Written(WriterCommitMessage):
    """The files that a task has written, below the folder of unfinished files."""

    files: tuple[str, ...]


class PacketWriter(DataSourceArrowWriter):
    """Writes a pcap file for each task and link type; they appear when all tasks have ended.

    Args:
        options: of `save`: `path`, a folder or URI.
        schema: the columns of the packets: `data`, `time_ns` or `time`, and perhaps `length` and `link_type`;
            others are left out.
        overwrite: whether captures in the folder are removed.

    Raises:
        OptionError: an option is unknown, `path` is missing, or the columns are not those of packets.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> None:
        given = {name.lower(): value for name, value in options.items()}
        if unknown := sorted(given.keys() - {"path"}):
            raise OptionError(f"pcap: unknown option {unknown[0]} for writing; expected path alone")
        if "path" not in given:
            raise OptionError("pcap: no path; expected save(FOLDER)")
        found = {column.name: column.dataType.simpleString() for column in schema.fields}
        for name in found.keys() & _TYPES.keys():
            if found[name] != _TYPES[name]:
                raise OptionError(f"pcap: column {name} is {found[name]}; expected {_TYPES[name]}")
        if "data" not in found or not {"time_ns", "time"} & found.keys():
            raise OptionError("pcap: expected the columns data, and time_ns or time, of the packets to write")
        self._path = given["path"]
        self._overwrite = overwrite
        # Readers of captures skip hidden folders.
        self._unfinished = f".unfinished-{uuid.uuid4().hex}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Writes the packets of a task in their order.

        Raises:
            OptionError: a packet has no time, or no time that pcap can hold.
        """
        system, folder = place_of(self._path)
        system.create_dir(f"{folder}/{self._unfinished}")
        files: dict[int, tuple[str, Any]] = {}
        with errors_in_one_line(), ExitStack() as opened:
            for batch in iterator:
                for link_type, record in _records(batch):
                    if link_type not in files:
                        name = f"{uuid.uuid4().hex}-link{link_type}.pcap"
                        stream = system.open_output_stream(f"{folder}/{self._unfinished}/{name}")
                        files[link_type] = name, opened.enter_context(stream)
                        stream.write(file_header(link_type))
                    files[link_type][1].write(record)
        return Written(tuple(name for name, _ in files.values()))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Moves the files of all tasks into the folder."""
        system, folder = place_of(self._path)
        if self._overwrite:
            for info in system.get_file_info(fs.FileSelector(folder, allow_not_found=True)):
                if info.type is fs.FileType.File and is_capture_name(info.base_name, None):
                    system.delete_file(info.path)
        written = [name for message in messages if isinstance(message, Written) for name in message.files]
        for number, name in enumerate(written):
            system.move(f"{folder}/{self._unfinished}/{name}", f"{folder}/part-{number:05}-{name}")
        self._remove_unfinished()

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:  # noqa: ARG002 - Spark's signature
        """Removes the files of all tasks."""
        self._remove_unfinished()

    def _remove_unfinished(self) -> None:
        system, folder = place_of(self._path)
        # Without packets there is no folder.
        with suppress(FileNotFoundError):
            system.delete_dir(f"{folder}/{self._unfinished}")


def _records(batch: pa.RecordBatch) -> Iterator[tuple[int, bytes]]:
    """Link type and record of each packet of a batch."""
    columns = {name: batch.column(name) for name in batch.schema.names if name in _TYPES}
    times = columns.get("time_ns")
    if times is None:
        micros = columns["time"].cast(pa.timestamp("us", columns["time"].type.tz)).cast(pa.int64())
        times = pc.multiply_checked(micros, 1000)
    count = batch.num_rows
    lengths = columns["length"].to_pylist() if "length" in columns else [None] * count
    link_types = columns["link_type"].to_pylist() if "link_type" in columns else [None] * count
    for time_ns, data, length, link_type in zip(
        times.to_pylist(), columns["data"].to_pylist(), lengths, link_types, strict=True
    ):
        if time_ns is None or data is None:
            raise OptionError(
                "pcap: a packet has no time or no data; expected both (drop such packets before)"
            )
        try:
            header = record_header(time_ns, len(data), max(length or 0, len(data)))
        except struct.error:
            raise OptionError(
                f"pcap: a packet of time_ns {time_ns} and length {length}; expected a time from 1970 to 2106 "
                "and a length of less than 4 GiB"
            ) from None
        yield LINKTYPE_ETHERNET if link_type is None else link_type, header + data
