"""docs/reference/tables.md: the tables of a run, made from the catalogue, and questions that they answer."""

from __future__ import annotations

import tomllib
from importlib.resources import files

from captures.frames.columns import COLUMNS
from captures.rundir.document import bullet, filled
from captures.tables import CLOCKS, SHARED, TABLES, Column

#: Questions about runs, and the SQL that answers them.
EXAMPLES: tuple[tuple[str, str], ...] = tuple(
    tomllib.loads(files(__package__).joinpath("examples.toml").read_text(encoding="utf-8")).items()
)


def document() -> str:
    """The text of docs/reference/tables.md."""
    lines = [
        "# Tables of a run",
        "",
        "A table is a folder `parquet/<table>/` of Parquet files in the run folder. Types are Arrow's.",
        "Units:",
        "`experiment s` are seconds of the experiment, counted from the request of the first set_predicate",
        "(negative before it; table `run` says how many make a wall second, and the time of second 0);",
        "`wall s` are seconds of the machine's clock.",
        "",
        "The end of a column's name says its clock:",
        "",
        "| end | unit |",
        "|---|---|",
        *(f"| `{end}` | {unit.replace('/', 'a quantity /')} |" for end, unit in CLOCKS.items()),
        "",
        "`source` and `seq` identify a message in every table, `issuer` and `seq` a frame of any type.",
        "",
        "`type` of an encoded frame (docs/explanation/privacy.md) is that of the frame in whose place it is:",
        "XMSG is `MSG`, XRA is `RA`, XUR is `UR`; column `encoded` of `frames` tells them apart. So it is in",
        "summary.json, in the report and in the format `cbcb`, too. Routers count the type of the header",
        "(counters/routers.json), and the dissector shows it.",
        "",
        "A name has one type and one unit in all tables. Several tables have these columns, and name them as",
        "*above*; where a name means more in a table, the table describes it. A unit in parentheses is given",
        "where neither the end of the name nor the meaning says it.",
        "",
        *(_row(column) for column in SHARED.values()),
        "",
        "`cbcb query RUN --tables` lists the tables, `cbcb query RUN 'SELECT ...'` answers questions in SQL.",
        "",
        "Examples, which `tests/spark/test_questions.py` runs with known answers:",
    ]
    for question, sql in EXAMPLES:
        lines += ["", question, "", "```sql", sql, "```"]
    for table in TABLES.values():
        lines += ["", f"## {table.name}", "", filled(f"One row per {table.grain}."), ""]
        above = [f"`{column.name}`" for column in table.columns if column == SHARED.get(column.name)]
        own = [_row(column) for column in table.columns if column != SHARED.get(column.name)]
        listed = f"Above: {', '.join(above)}."
        if table.name == "frames":
            listed = "Columns of view `frames` of the format `cbcb` ([pcap-source.md](pcap-source.md)), and:"
            own = [_row(column) for column in table.columns if column.name not in COLUMNS]
        lines += [filled(listed), ""] * bool(above)
        lines += [*own, ""] * bool(own)
        lines.pop()
    return "\n".join(lines) + "\n"


def _row(column: Column) -> str:
    ends = (end for end in CLOCKS if column.name.endswith(end))
    known = next(ends, None) or column.unit in column.meaning or column.unit in column.name
    unit = "" if known else f" ({'ratio' if column.unit == '1' else column.unit})"
    return bullet(f"`{column.name}`, {column.type}: {column.meaning}{unit}")
