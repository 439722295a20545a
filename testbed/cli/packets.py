"""`cbcb packets`: the packets, frames or flows of any captures as a table."""

from __future__ import annotations

import re
import sys
import warnings
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from testbed.support.errors import InputError
from testbed.terminal import foreign, put

#: As `captures.datasource.views`, which takes long to load.
_VIEWS = ("packets", "flows", "frames", "traffic", "files")
#: The column with all bytes of a packet, which is left out unless it is named.
_BYTES = "data"


def packets_arguments(parser: ArgumentParser) -> None:
    parser.epilog = "docs/reference/pcap-source.md has the columns of each view, and captures in programs."
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help="capture, folder, glob or URI; for frames, also a run folder"
    )
    parser.add_argument(
        "--view", choices=_VIEWS, default=_VIEWS[0], help="a row for each packet, flow, CBCB frame, ..."
    )
    parser.add_argument(
        "--columns", metavar="NAMES", help=f"columns, separated by commas (all, without {_BYTES})"
    )
    parser.add_argument(
        "--where", metavar="SQL", help="condition in DuckDB's SQL, such as 'dst_port = 443 AND length > 100'"
    )
    parser.add_argument(
        "--to", default="-", metavar="FILE", help="NAME.parquet or NAME.csv; -: CSV on standard output (-)"
    )


def packets_command(arguments: Namespace) -> None:
    """Writes the table; a file appears whole, or not at all.

    A file that is no capture, an unknown column and a wrong condition are InputErrors (exit status 2).
    """
    target = None if arguments.to == "-" else Path(arguments.to)
    if target is not None and target.suffix not in (".csv", ".parquet"):
        raise InputError(f"--to {target}: expected NAME.parquet, NAME.csv or -")
    folder = None if target is None else target.absolute().parent
    if folder is not None and not folder.is_dir():
        raise InputError(f"{target}: no such folder: {folder}")
    # The reader of captures and DuckDB take a third of a second to load.
    import pyarrow as pa
    from rich.console import Console

    from captures.datasource.opening import FLOWS, FLOWS_READ, FLOWS_SQL, open_captures
    from captures.datasource.options import OptionError
    from captures.datasource.views import CBCB_VIEWS, PACKETS, PCAP_VIEWS
    from captures.pcap import PcapError
    from captures.tables.query import (
        CLOSED,
        DatabaseError,
        interruptible,
        new_database,
        reading,
        restrict,
        statements,
    )
    from testbed.terminal.answers import csv_texts, put_texts

    known = {**PCAP_VIEWS, **CBCB_VIEWS}.get(arguments.view)
    condition = arguments.where or "true"
    chosen = [name for name in known or () if name != _BYTES]
    if arguments.columns is not None:
        chosen = [name.strip() for name in arguments.columns.split(",")]
    # Names of columns may be words of SQL.
    listed = ", ".join('"{}"'.format(name.replace('"', '""')) for name in chosen) or "*"
    read = None
    if known is not None:
        tested = [name for name in known if re.search(rf"\b{name}\b", condition, re.IGNORECASE)]
        read = list(dict.fromkeys([*chosen, *tested]))
    question, view, table = f"select {listed} from captures where {condition}", arguments.view, "captures"
    if view == FLOWS:
        question = f"with captures as ({FLOWS_SQL}) {question}"
        view, table, read = PACKETS, "packets", FLOWS_READ

    def batches(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        rows = 0
        try:
            for batch in reader:
                rows += batch.num_rows
                status.update(foreign(f"{rows:,} rows read"))
                yield batch
        except (PcapError, OSError) as error:
            raise InputError(str(error)) from error

    try:
        with (
            Console(stderr=True).status("") as status,
            _warnings_in_one_line(),
            TemporaryDirectory(prefix=".cbcb-packets-", dir=folder) as made,
            new_database(**CLOSED) as database,
            ExitStack() as opened,
        ):
            reader = open_captures(arguments.files, view, read)
            counted = pa.RecordBatchReader.from_batches(reader.schema, batches(reader))
            opened.enter_context(reading(database, table, counted))
            restrict(database, made)
            if len(statements(question)) != 1:
                raise InputError(f"--where {condition}: expected a condition, without ';'")
            relation = database.sql(question)
            if target is None:
                # Beside its status, rich would print standard output on the terminal of standard error.
                status.stop()
                put_texts(csv_texts(database, relation), escaped=sys.stdout.isatty())
            else:
                written = Path(made, "table")
                write = relation.write_parquet if target.suffix == ".parquet" else relation.write_csv
                interruptible(database, lambda: write(str(written)))
                written.replace(target)
    except (OptionError, PcapError, FileNotFoundError) as error:
        raise InputError(str(error)) from error
    except DatabaseError as error:
        raise InputError(f"--columns, --where: {error}") from error


@contextmanager
def _warnings_in_one_line() -> Iterator[None]:
    """Shows warnings, as of a file that ends inside a record, without the place in our code."""
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = lambda message, *_, **__: put(f"cbcb: {message}", file=sys.stderr)
        yield
