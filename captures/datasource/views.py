"""Views: the rows that a data source makes of a part of a file."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import structs

from captures.datasource.options import DROPMALFORMED, FAILFAST, PERMISSIVE, ReadOptions
from captures.datasource.packet_view import NOT_ETHERNET, PacketDecoder, file_health
from captures.frames import CaptureIdentity
from captures.frames.columns import (
    COLUMNS,
    COUNTED_COLUMNS,
    FILE_COLUMNS,
    PACKET_COLUMNS,
    TRAFFIC_COLUMNS,
    Columns,
    spark_type,
    traffic,
)
from captures.frames.decoder import FrameDecoder
from captures.frames.parts import FilePart
from captures.pcap import PcapError
from captures.pcap.blocks import SMALL_BYTES, Block, JoinedBlocks, in_batches
from captures.pcap.opening import is_uri, split_uri
from captures.pcap.reader import PcapReader
from captures.pcap.walk import NO_TIME

#: Name of a view -> its columns; the first is the default.
Views = Mapping[str, Columns]
PACKETS, FRAMES, TRAFFIC, FILES = "packets", "frames", "traffic", "files"
PCAP_VIEWS: Views = {PACKETS: PACKET_COLUMNS, FILES: FILE_COLUMNS}
CBCB_VIEWS: Views = {FRAMES: COLUMNS, TRAFFIC: TRAFFIC_COLUMNS, FILES: FILE_COLUMNS}
_COLUMNS = {**PCAP_VIEWS, **CBCB_VIEWS}
Mask = npt.NDArray[np.bool_]


class MalformedPacketError(PcapError):
    """With mode `FAILFAST`, a packet does not decode, or a file is damaged."""


@dataclass(frozen=True, slots=True)
class View:
    """A table to be made of capture files.

    Attributes:
        options: its name, its columns, and which rows.
        captures: path -> the capture of a run that the file holds (views `frames` and `traffic`).
        growing: whether the files are being written: then an unfinished record at the end is no defect.
    """

    options: ReadOptions
    captures: Mapping[str, CaptureIdentity] = field(default_factory=dict)
    growing: bool = False

    @property
    def name(self) -> str:
        return self.options.view

    @property
    def columns(self) -> tuple[str, ...]:
        return self.options.columns

    def changed(self, **options: Any) -> View:
        """The table with other options."""
        return replace(self, options=structs.replace(self.options, **options))

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the columns."""
        known = _COLUMNS[self.name]
        return pa.schema([(name, known[name][0]) for name in self.columns])

    def identity(self, path: str) -> CaptureIdentity:
        """The capture that a file holds; for a file of no run, made from its name."""
        return self.captures.get(path) or CaptureIdentity(_stem(path), None)

    def needs(self, part: FilePart) -> bool:
        """Whether a part can hold rows within the bounds, as far as is known without reading the part."""
        links = self.options.links
        if links is not None and self.identity(part.path).link not in links:
            return False
        return self.name == FILES or self.options.needs(part)

    def read(self, part: FilePart) -> Iterator[pa.RecordBatch]:
        """The rows of a part within the bounds; no batch is empty.

        A file that ends inside a record is read up to that record, with a warning.

        Raises:
            PcapError: the file is no capture; with mode `FAILFAST`, a packet does not decode, or the file is
                damaged.
            OSError: the file cannot be read.
        """
        if not self.needs(part):
            return
        if self.name == FILES:
            yield file_health(part, self.columns)
            return
        decoder = self._decoder(part)
        for block in self._blocks(part):
            inside = self._inside(block)
            if inside is not None and not inside.any():
                decoder.pass_over(block)
            else:
                yield from self._rows([decoder], JoinedBlocks([block]), inside, part.path)

    def read_all(self, parts: Iterable[FilePart]) -> Iterator[pa.RecordBatch]:
        """The rows of parts as `read` gives them, part after part; small files share batches.

        Raises:
            PcapError, OSError: as `read`.
        """
        # With FAILFAST, an error names the file of the packet.
        together = self.name != FILES and self.options.mode != FAILFAST
        for small, some in groupby(parts, lambda part: together and part.size <= SMALL_BYTES):
            if not small:
                for part in some:
                    yield from self.read(part)
                continue
            blocks = (
                (decoder, block)
                for part in some
                if self.needs(part)
                for decoder in (self._decoder(part),)
                for block in self._blocks(part)
            )
            for decoders, joined in in_batches(blocks):
                yield from self._rows(decoders, joined, self._inside(joined.block), "")

    def _rows(
        self, decoders: Sequence[Any], joined: JoinedBlocks, inside: Mask | None, path: str
    ) -> Iterator[pa.RecordBatch]:
        """The rows of blocks within the bounds, unless there are none.

        Args:
            decoders: for each block, the decoder of its file.
            inside: the packets that were captured within the bounds of time; None: all.
            path: the file, for messages.
        """
        batch = self._chosen(decoders[0].together(decoders, joined, inside), path)
        if batch.num_rows:
            yield traffic(batch, self.columns, self.options.bin_ns) if self.name == TRAFFIC else batch

    def _blocks(self, part: FilePart) -> Iterator[Block]:
        """The packets of a part, up to its end or to the damage that the options allow.

        Raises:
            PcapError, OSError: as `read`.
        """
        reader = PcapReader(
            part.path, link_type=None, start=part.start, end=part.end, context=part.context,
            growing=self.growing, before=part.before,
        )  # fmt: skip
        try:
            yield from reader.blocks()
        except FileNotFoundError:
            if not self.options.ignore_missing_files:
                raise
        except (PcapError, OSError):
            if not self.options.ignore_corrupt_files:
                raise
        if reader.defect and self.options.mode == FAILFAST:
            raise MalformedPacketError(f"{part.path}: {reader.defect}")
        if reader.defect:
            warnings.warn(f"{part.path}: {reader.defect}", stacklevel=2)

    def _decoder(self, part: FilePart) -> PacketDecoder | FrameDecoder:
        if self.name == PACKETS:
            return PacketDecoder(part.path, self._decoded)
        decoder = FrameDecoder(self.identity(part.path), self._decoded)
        decoder.carry(part)
        return decoder

    @property
    def _decoded(self) -> tuple[str, ...]:
        """The columns to decode: also those that the choice of rows needs."""
        if self.name == TRAFFIC:
            return COUNTED_COLUMNS
        needed = ["type"] if self.options.types is not None and self.name != PACKETS else []
        if self.options.mode != PERMISSIVE:
            needed += ["undecodable", "packet"]
        return (*self.columns, *(name for name in needed if name not in self.columns))

    def _inside(self, block: Block) -> Mask | None:
        """Which packets of a block were captured within the bounds of time; None: all."""
        from_ns, until_ns = self.options.from_ns, self.options.until_ns
        if from_ns is None and until_ns is None:
            return None
        inside = block.time_ns != NO_TIME
        if from_ns is not None:
            inside &= block.time_ns >= from_ns
        if until_ns is not None:
            inside &= block.time_ns < until_ns
        return None if np.all(inside) else inside

    def _chosen(self, batch: pa.RecordBatch, path: str) -> pa.RecordBatch:
        """The required columns of the rows of a file that the bounds and the mode admit."""
        if self.options.types is not None and self.name != PACKETS:
            inside = pc.is_in(batch.column("type"), pa.array(sorted(self.options.types), pa.string()))
            batch = batch.filter(inside)
        if self.options.mode != PERMISSIVE:
            # A packet of another link type is well-formed.
            malformed = pc.fill_null(pc.not_equal(batch.column("undecodable"), NOT_ETHERNET), False)
            if self.options.mode == DROPMALFORMED:
                batch = batch.filter(pc.invert(malformed))
            elif pc.any(malformed).as_py():
                row = batch.filter(malformed).slice(0, 1).to_pylist()[0]
                raise MalformedPacketError(f"{path}: packet {row['packet']}: {row['undecodable']}")
        return batch if self.name == TRAFFIC else batch.select(list(self.columns))


def spark_schema(views: Views, view: str, columns: tuple[str, ...]) -> str:
    """The schema of some columns of a view, in Spark's notation."""
    return ", ".join(f"{name} {spark_type(views[view][name][0])}" for name in columns)


def _stem(path: str) -> str:
    """The name of a capture file without the suffixes of its format and the settings of its URI."""
    path = split_uri(path).path if is_uri(path) else path
    name = path.rpartition("/")[2].removesuffix(".gz").removesuffix(".zst")
    return name.rsplit(".", 1)[0] or name
