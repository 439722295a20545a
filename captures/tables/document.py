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


def clocks() -> str:
    rows = [f"| `{end}` | {unit.replace('/', 'a quantity /')} |" for end, unit in CLOCKS.items()]
    return "\n".join(["| end | unit |", "|---|---|", *rows]) + "\n"


def shared() -> str:
    """The columns that several tables have."""
    return "\n".join(map(_row, SHARED.values())) + "\n"


def examples() -> str:
    return "\n".join(f"{question}\n\n```sql\n{sql}\n```\n" for question, sql in EXAMPLES)


def tables() -> str:
    lines: list[str] = []
    for table in TABLES.values():
        lines += [f"## {table.name}", "", filled(f"Per {table.grain}."), ""]
        above = [f"`{column.name}`" for column in table.columns if column == SHARED.get(column.name)]
        own = [_row(column) for column in table.columns if column != SHARED.get(column.name)]
        listed = f"Above: {', '.join(above)}."
        if table.name == "frames":
            listed = "Columns of view `frames` of the format `cbcb` ([pcap-source.md](pcap-source.md)), and:"
            own = [_row(column) for column in table.columns if column.name not in COLUMNS]
        lines += [filled(listed), ""] * bool(above)
        lines += [*own, ""] * bool(own)
    return "\n".join(lines)


def _row(column: Column) -> str:
    ends = (end for end in CLOCKS if column.name.endswith(end))
    known = next(ends, None) or column.unit in column.meaning or column.unit in column.name
    unit = "" if known else f" ({'ratio' if column.unit == '1' else column.unit})"
    return bullet(f"`{column.name}`, `{column.type}`: {column.meaning}{unit}")
