"""Tables over the pages of docs/figures: each judged claim, and where the mechanisms of the papers are."""

from __future__ import annotations

import csv
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path

from testbed.evaluation.figures.page import DATA, merged, shape, table_lines
from testbed.evaluation.figures.reproduction import UNDECIDED
from testbed.evaluation.figures.runner import read_data

_COMMAND = re.compile(r"^Made by `(cbcb figure (\S+).*)`\.$", re.MULTILINE)


def claims(folder: Path) -> str:
    """Returns the table of the judged claims of the pages in a folder: command, cost, expected, verdict."""
    lines, listed = [], set()
    for path in sorted(folder.glob("*.csv"), key=lambda path: path.stem):
        ((command, name),) = _COMMAND.findall(path.with_suffix(".md").read_text(encoding="utf-8"))
        data = folder / DATA / f"{path.stem}.json.gz"
        cost = ""
        if data.is_file():
            costs = read_data(data)[1].costs
            cost = f", {costs['s'] / 60:.1f} min, {costs['peak_memory_bytes'] / 2**20:.0f} MiB"
        rows = _rows(path)
        lines.append((f"[{path.stem}](../figures/{path.stem}.md): `{command}`{cost}", "", _verdict(rows)))
        cases: dict[str, list[dict[str, str]]] = {}
        for row in rows:
            if row["holds"] != "shown" or UNDECIDED in row["measured"]:
                cases.setdefault(row["claim"], []).append(row)
        for claim, found in cases.items():
            if (name, shape(claim)) not in listed or any(row["holds"] != "yes" for row in found):
                lines.append((claim, merged(row["predicted"] for row in found), _verdict(found)))
        listed |= {(name, shape(claim)) for claim in cases}
    return "\n".join([*table_lines(("claim", "expected", "holds"), lines), ""])


def coverage(rows: Path, folder: Path) -> str:
    """Returns the page of a file of rows, with verdicts from the pages in a folder.

    Raises:
        ValueError: a row names a claim that no page has.
    """
    lines: list[str] = []
    for source, found in tomllib.loads(rows.read_text(encoding="utf-8")).items():
        lines += [f"## {source}", ""]
        cells = []
        for subject, (place, test, *more) in found.items():
            named, verdict = (*more, "", "")[:2]
            page, claim, case = f"{named}##".split("#")[:3]
            if page:
                path = folder / f"{page}.csv"
                cases = [row for row in _rows(path) if row["claim"].startswith(claim) and case in row["case"]]
                if not cases:
                    expected = f"claim that begins with {claim!r} on a case with {case!r}"
                    raise ValueError(f"{rows}: {subject}: {path} has no {expected}")
                verdict = f"[{page}](../figures/{page}.md) {_verdict(cases)}"
            cells.append((subject, *(f"`{each}`" if each else "none" for each in (place, test)), verdict))
        lines += [*table_lines(("subject", "code", "test", "verdict"), cells), ""]
    return "\n".join(lines)


def _rows(path: Path) -> list[dict[str, str]]:
    """Returns the statements beside a page."""
    with path.open(encoding="utf-8") as file:
        return [row for row in csv.DictReader(file) if row["part"] == "statements"]


def _verdict(cases: Sequence[dict[str, str]]) -> str:
    """Returns how many of the judged cases hold, and how many are undecided."""
    judged = [row["holds"] for row in cases if row["holds"] != "shown"]
    undecided = sum(UNDECIDED in row["measured"] for row in cases)
    parts = []
    if judged:
        parts.append(f"{judged.count('yes')}/{len(judged)}")
    if undecided:
        parts.append(f"{undecided} undecided")
    return ", ".join(parts) or "shown"
