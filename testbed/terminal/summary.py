"""The summary of a run: its facts, which report and terminal share, and what is printed at its end."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from testbed.terminal import foreign, numbers
from testbed.terminal.numbers import count, seconds

#: Engines of the accounting, with their names.
ENGINES = {"spark": "Spark", "duckdb": "DuckDB, without tshark"}
#: Of a small run on Spark.
WHY_SPARK = (
    "Spark counts millions of frames as well, here or on a cluster, and tshark's reader checks the captures; "
    "of a small run, --engine duckdb makes the same tables sooner"
)
_FIELD = re.compile(r"\{([\w.]+):?([^}]*)\}")
#: Texts of a list that are printed.
_SHOWN_TEXTS = 10
_STYLES = {"holds": "bold blue", "fails": "bold red", "invalid": "bold red"}


class Fact(NamedTuple):
    """A number of a run under its name, with what belongs beside it."""

    name: str
    value: str
    note: str


def facts(summary: Mapping[str, Any]) -> dict[str, list[Fact]]:
    """Returns the facts of a summary, by the sections of facts.toml; a key that it lacks is a dash.

    Sections of keys that are null or 0 are left out; a service without messages has none of their facts.
    """
    text = (files(__package__) / "facts.toml").read_text(encoding="utf-8")
    left_out = {key for key in ("clock_error_s", "lag", "private", "attention") if not summary.get(key)}
    left_out |= set() if "attention" in left_out else {"messages"}
    return {
        section: [_fact(summary, *row) for row in rows]
        for section, rows in tomllib.loads(text).items()
        if section not in left_out
    }


def _fact(summary: Mapping[str, Any], name: str, value: str, note: str, without: str = "") -> Fact:
    found = _written(value, summary)
    chosen = without if without and found == numbers.ABSENT else note
    return Fact(name, found, _written(chosen, summary))


def _written(text: str, summary: Mapping[str, Any]) -> str:
    """Returns a text of facts.toml with the values of a summary."""

    def value(field: re.Match[str]) -> str:
        found: Any = summary
        for key in field[1].split("."):
            found = (found or {}).get(key)
        match field[2].split():
            case ["of", whole]:
                return numbers.share(found, summary.get(whole))
            case ["share"]:
                return numbers.share(found, 1)
            case ["total"]:
                return count(None if found is None else sum(found.values()))
            case ["each"]:
                return ", ".join(f"{kind} {count(each)}" for kind, each in numbers.by_type(found)) or "none"
            case [form]:
                return str(getattr(numbers, form)(found))
        return numbers.ABSENT if found is None else ENGINES.get(found, found)

    return _FIELD.sub(value, text)


def print_summary(console: Console, summary: Mapping[str, Any], report: Path) -> None:
    """Prints verdict, facts, evidence, and the path of the report.

    The path is on one line so that it can be copied. The text is complete without colour. A key that
    `summary` lacks is a dash.
    """
    verdict, reasons = numbers.verdict(summary)
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(style="dim", max_width=24)
    table.add_column()
    for section in facts(summary).values():
        for name, value, note in section:
            table.add_row(name, foreign("; ".join(filter(None, (value, note)))))
    for label, text in _evidence(summary):
        table.add_row(label, foreign(text))
    line = "; ".join(filter(None, (f"Verdict: {verdict}", numbers.undecided(summary))))
    headline = foreign(line, _STYLES.get(verdict, "bold"))
    console.print(Group(headline, *(foreign(f"  - {reason}") for reason in reasons), Text(), table))
    console.print(Text.assemble(("report: ", "dim"), foreign(report)), soft_wrap=True)


def _evidence(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Returns rows on what the report has in tables: changes, reconciliations, frames that were not taken."""
    rows = []
    if changes := summary.get("recovery_s"):
        trees, advertised = (
            seconds(max((change[key] for change in changes if change[key] is not None), default=None))
            for key in ("committed_s", "advertised_s")
        )
        lasting = sum(change["committed_s"] is None for change in changes)
        text = (
            f"{len(changes)} changes of the network; at most {trees} to new trees, {advertised} to the last "
        )
        text += "advertisement" + (f"; {count(lasting)} NEVER RECOVERED FROM" if lasting else "")
        rows.append(("recovery", text))
    for entry in numbers.reconciliations(summary):
        if entry["agrees"] is None:
            result = f"not made{entry['why']}"
        elif entry["agrees"]:
            result = f"equal, {count(entry['found'])}"
        else:
            result = f"DIFFERS: {count(entry['expected'])} there, {count(entry['found'])} accounted"
        rows.append((entry["name"], result))
    if not_taken := numbers.frames_not_taken(summary):
        more = [f"and {len(not_taken) - _SHOWN_TEXTS} more"] if len(not_taken) > _SHOWN_TEXTS else []
        rows.append(("not taken", "\n".join([*not_taken[:_SHOWN_TEXTS], *more])))
    return rows
