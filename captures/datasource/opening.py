"""Captures opened by the options of a format, with Spark or without; flows of packets."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files as resources
from pathlib import Path
from typing import Any

import pyarrow as pa

from captures.datasource.options import OptionError, ReadOptions, read_columns, read_options
from captures.datasource.views import CBCB_VIEWS, FRAMES, PACKETS, PCAP_VIEWS, View
from captures.frames import CaptureIdentity
from captures.frames.columns import PACKET_COLUMNS
from captures.frames.parts import FilePart
from captures.pcap.listing import is_capture_name, local_matches
from captures.rundir import RunLayout
from captures.rundir.capture_list import capture_paths

FLOWS = "flows"
#: The table of flows over a table `packets` (view `packets`), in SQL that Spark and DuckDB run.
FLOWS_SQL = resources(__package__).joinpath("flows.sql").read_text(encoding="utf-8")
#: Columns of packets that `FLOWS_SQL` reads.
FLOWS_READ = [name for name in PACKET_COLUMNS if re.search(rf"\b{name}\b", FLOWS_SQL)]


def view_of(source: str, given: Mapping[str, str]) -> View:
    """The table that the options of a format describe.

    Args:
        source: `pcap`, or `cbcb`, whose paths may be those of run folders.

    Raises:
        OptionError: an option is unknown, missing or malformed.
        RunFolderError: the list of captures of a run, or its topology, is missing or malformed.
    """
    options = read_options(source, given, PCAP_VIEWS if source == "pcap" else CBCB_VIEWS)
    if source == "pcap":
        return View(options)
    paths: list[str] = []
    identities: dict[str, CaptureIdentity] = {}
    for path in options.paths:
        for run in (runs := run_folders(path)):
            paths.append(str(run.captures_folder))
            identities |= capture_paths(run)
        if not runs:
            paths.append(path)
    # The folder of a run's captures need not exist yet.
    of_runs = frozenset(paths) - frozenset(options.paths)
    return View(options, identities).changed(paths=tuple(paths), may_be_missing=of_runs)


def open_captures(
    paths: str | Path | Sequence[str | Path],
    view: str = PACKETS,
    columns: Sequence[str] | None = None,
    **options: object,
) -> pa.RecordBatchReader:
    """The rows of captures, a batch at a time, without Spark: file after file, in the order of their names.

    The files are read where the result is; flows wait for the last packet.

    Args:
        paths: files, directories, globs or URIs; for the views of frames, also run folders.
        view: `packets` or `files`, of any captures; `frames` or `traffic`, of CBCB frames; or `flows`
            (`FLOWS_SQL`).
        columns: names of columns of the view, in the order of the result; None: all.
        options: further options of the formats (docs/reference/pcap-source.md), such as `fromNs` or `types`.

    Raises:
        OptionError: an option is unknown or malformed.
        FileNotFoundError: a path does not exist, or a glob matches nothing.
        PcapError, OSError: from the reader: a file is no capture, or cannot be read.
    """
    if view == FLOWS:
        return _flows(paths, columns, options)
    given = [paths] if isinstance(paths, (str, Path)) else list(paths)
    written = {name: str(value) for name, value in options.items()}
    written |= {"view": view, "paths": json.dumps([str(path) for path in given])}
    if columns is not None:
        written["columns"] = ",".join(columns)
    source = "cbcb" if view in CBCB_VIEWS and view not in PCAP_VIEWS else "pcap"
    table = view_of(source, written)
    parts = [FilePart(file.path, size=file.size) for file in table.options.files()]
    return pa.RecordBatchReader.from_batches(table.schema, table.read_all(parts))


def frames_of(
    captures: Mapping[str, CaptureIdentity], columns: Sequence[str], *, growing: bool = False
) -> pa.RecordBatchReader:
    """The frames of files, each with the capture that it holds, as `open_captures` reads them.

    Args:
        growing: whether the files are being written.

    Raises:
        FileNotFoundError, PcapError: a file is missing, or damaged.
    """
    view = View(ReadOptions(view=FRAMES, columns=tuple(columns)), captures, growing)
    parts = [FilePart(path, size=Path(path).stat().st_size) for path in captures]
    return pa.RecordBatchReader.from_batches(view.schema, view.read_all(parts))


def _flows(paths: Any, columns: Sequence[str] | None, options: Mapping[str, object]) -> pa.RecordBatchReader:
    # DuckDB takes a tenth of a second to load.
    from captures.tables.query import new_database, reading

    packets = open_captures(paths, PACKETS, FLOWS_READ, **options)
    with new_database() as database:
        database.register("packets", packets.schema.empty_table())
        schema = database.sql(FLOWS_SQL).to_arrow_table().schema
    names = read_columns(FLOWS, None if columns is None else ",".join(columns), schema.names)
    schema = pa.schema([schema.field(name) for name in names])

    def batches() -> Iterator[pa.RecordBatch]:
        with new_database() as database, reading(database, "packets", packets):
            for batch in database.sql(FLOWS_SQL).to_arrow_reader():
                yield batch.select(schema.names)

    return pa.RecordBatchReader.from_batches(schema, batches())


def run_folders(path: str) -> list[RunLayout]:
    """The run folders that a path names: the path itself, or all that a glob matches.

    May be none.

    Raises:
        OptionError: a glob matches run folders, and also captures or folders outside of them.
    """
    matches = local_matches(path)
    runs = {match for match, folder in matches if folder and RunLayout(Path(match)).topology.is_file()}
    above = {str(parent) for run in runs for parent in Path(run).parents}
    for match, folder in matches if runs else []:
        inside = any(str(parent) in runs for parent in Path(match).parents)
        read = folder or is_capture_name(Path(match).name, None)
        if match not in runs | above and not inside and read:
            raise OptionError(f"cbcb: {path}: matches run folders and also {match}, which is no run folder")
    return [RunLayout(Path(run)) for run in sorted(runs)]
