"""Answers of `cbcb query` as an aligned table, CSV or Parquet, which DuckDB writes, or as lines of JSON."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from captures.tables.query import Description, Relation, asked, interruptible
from testbed.errors import InputError
from testbed.terminal.printable import put

#: DuckDB lays out 10,000 rows as a table, and says how many it shows if there are some more.
_MOST_ROWS = 9_990
#: Characters of a line of a table that is not shown on a terminal: no column is left out, no value cut.
_WIDEST = 1_000_000
#: Characters of the name of a type that the list of tables shows.
_WIDEST_TYPE = 20
#: Rows of a batch of lines of JSON.
_BATCH_ROWS = 50_000


def answer(run: Path, sql: str, form: str, path: Path | None, rows: int) -> None:
    """Writes the answer to a question about the tables of a run.

    A terminal gets no control characters, and of a table what its width has room for. A question that fails
    leaves the file as it was.

    Args:
        form: `table`, `csv`, `json` or `parquet`.
        path: the file to write; None: standard output.
        rows: rows of a table at most; 0: as many as a table can have.

    Raises:
        InputError: Parquet has no file, or the folder of `path` does not exist.
        QueryError, RunFolderError: as `captures.tables.query.asked`.
        OSError: the file cannot be written; the error names it.
    """
    if form == "parquet" and path is None:
        raise InputError("--format parquet: expected --output FILE as well")
    if path is not None and not path.absolute().parent.is_dir():
        raise InputError(f"{path}: no such folder: {path.absolute().parent}")
    with TemporaryDirectory(prefix="cbcb-answer-") as folder:
        written = Path(folder) / "answer"
        with asked(run, sql, written.parent) as (database, relation):
            shown = path is None and sys.stdout.isatty()
            width = shutil.get_terminal_size().columns if shown else _WIDEST
            interruptible(database, lambda: _write(relation, form, written, rows, width))
        if path is None:
            _print(written, escaped=form == "table" or shown)
        else:
            _copy(written, path)


def _write(relation: Relation, form: str, file: Path, rows: int, width: int) -> None:
    if form == "csv":
        relation.write_csv(str(file))
    elif form == "parquet":
        relation.write_parquet(str(file))
    elif form == "json":
        # The JSON of DuckDB has numbers that JSON lacks (NaN, infinity); here they are null.
        encoder = msgspec.json.Encoder()
        with file.open("wb") as lines:
            for batch in relation.to_arrow_reader(_BATCH_ROWS):
                lines.write(encoder.encode_lines(batch.to_pylist(maps_as_pydicts="lossy")))
    else:
        with redirect_stdout(StringIO()) as text:
            most = min(rows or _MOST_ROWS, _MOST_ROWS)
            relation.show(max_rows=most, max_width=width, null_value="")
        file.write_text(text.getvalue().rstrip() + "\n", encoding="utf-8")


def _print(file: Path, *, escaped: bool) -> None:
    with file.open(encoding="utf-8", newline="") as lines:
        if escaped:
            for line in lines:
                put(line.removesuffix("\n"))
        else:
            shutil.copyfileobj(lines, sys.stdout)


def _copy(file: Path, path: Path) -> None:
    try:
        with file.open("rb") as written, path.open("wb") as target:
            shutil.copyfileobj(written, target)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def described(tables: list[Description]) -> Iterator[str]:
    """Describes each table and its columns, as lines."""
    for table in tables:
        yield f"{table.name}: one row for each {table.grain}"
        widest = max(len(name) for name, _, _ in table.columns)
        types = [_short(kind) for _, kind, _ in table.columns]
        for (name, _, meaning), kind in zip(table.columns, types, strict=True):
            yield f"  {name.ljust(widest)}  {kind.ljust(max(map(len, types)))}  {meaning}"


def _short(kind: str) -> str:
    """The type of a column, without the fields of a long one."""
    if len(kind) <= _WIDEST_TYPE:
        return kind
    return kind.partition("(")[0] + ("[]" if kind.endswith("[]") else "")
