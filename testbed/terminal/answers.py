"""Answers of `cbcb query` as an aligned table, CSV or Parquet, which DuckDB writes, or as lines of JSON."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from captures.tables import TABLES
from captures.tables.query import Database, Relation, asked, batches, interruptible
from testbed.support.errors import InputError
from testbed.terminal import put

#: DuckDB lays out 10,000 rows as a table.
_MOST_ROWS = 9_990
#: Characters of a line of a table that is not shown on a terminal: no column is left out, no value cut.
_WIDEST = 1_000_000
#: Characters of the name of a type that the list of tables shows.
_WIDEST_TYPE = 20
#: A cell of CSV that is quoted: without its quotes, an empty text would be a null.
_QUOTED = re.compile(r'^$|[,"\r\n]')
#: Rows that are printed at a time.
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
    shown = path is None and sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if shown else _WIDEST
    with (
        TemporaryDirectory(prefix="cbcb-answer-") as folder,
        asked(run, sql, Path(folder)) as (database, relation),
    ):
        if form == "table":
            texts = iter([interruptible(database, lambda: _table(relation, rows, width))])
        else:
            texts = (json_texts if form == "json" else csv_texts)(database, relation)
        if path is None:
            put_texts(texts, escaped=form == "table" or shown)
            return
        written = Path(folder) / "answer"
        if form in ("csv", "parquet"):
            write = relation.write_csv if form == "csv" else relation.write_parquet
            interruptible(database, lambda: write(str(written)))
        else:
            with written.open("w", encoding="utf-8") as file:
                file.writelines(f"{text}\n" for text in texts)
        _copy(written, path)


def csv_texts(database: Database, relation: Relation) -> Iterator[str]:
    """Yields the CSV that DuckDB writes of a relation: the heading, then many rows at a time."""
    yield _record(relation.columns)
    cells = relation.project("columns(*)::varchar")
    for batch in batches(database, cells, _BATCH_ROWS):
        yield "\n".join(map(_record, zip(*(column.to_pylist() for column in batch.columns), strict=True)))


def _record(cells: Sequence[str | None]) -> str:
    return ",".join(
        "" if cell is None else '"{}"'.format(cell.replace('"', '""')) if _QUOTED.search(cell) else cell
        for cell in cells
    )


def json_texts(database: Database, relation: Relation) -> Iterator[str]:
    """Yields the lines of JSON of a relation, many rows at a time."""
    # The JSON of DuckDB has numbers that JSON lacks (NaN, infinity); here they are null.
    encoder = msgspec.json.Encoder()
    for batch in batches(database, relation, _BATCH_ROWS):
        yield encoder.encode_lines(batch.to_pylist(maps_as_pydicts="lossy")).decode().removesuffix("\n")


def _table(relation: Relation, rows: int, width: int) -> str:
    ((count,),) = relation.aggregate("count(*)").fetchall()
    most = min(rows or _MOST_ROWS, _MOST_ROWS)
    with redirect_stdout(StringIO()) as text:
        relation.limit(most).show(max_rows=most, max_width=width, null_value="")
    table = text.getvalue().rstrip()
    if count <= most:
        return table
    remedy = "--rows 0: all" if count <= _MOST_ROWS else "--format csv: all"
    return f"{table}\n({count:,} rows, the first {most:,} shown ({remedy}))"


def put_texts(texts: Iterable[str], *, escaped: bool) -> None:
    """Prints texts, without control characters if `escaped`."""
    for text in texts:
        if escaped:
            put(text)
        else:
            sys.stdout.write(f"{text}\n")


def _copy(file: Path, path: Path) -> None:
    try:
        with file.open("rb") as written, path.open("wb") as target:
            shutil.copyfileobj(written, target)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def described(tables: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """Describes each table and its columns, of known types, as lines."""
    for name, types in tables.items():
        yield f"{name}: one row for each {TABLES[name].grain}"
        widest, widest_type = max(map(len, types)), max(len(_short(kind)) for kind in types.values())
        for column in TABLES[name].columns:
            if column.name in types:
                unit = f" [{column.unit}]" if column.unit else ""
                kind = _short(types[column.name]).ljust(widest_type)
                yield f"  {column.name.ljust(widest)}  {kind}  {column.meaning}{unit}"


def _short(kind: str) -> str:
    """The type of a column, without the fields of a long one."""
    if len(kind) <= _WIDEST_TYPE:
        return kind
    return kind.partition("(")[0] + ("[]" if kind.endswith("[]") else "")
