"""The page of a reproduction: what the paper says, the picture, each claim and where it holds, what varies.

Beside the page, `NAME.csv` has every row: the cases, each statement on each case, each table. The runs from
which all three are made are in `data/NAME.json.gz`.
"""

from __future__ import annotations

import csv
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from router.protocol.options import DEFAULT_SCHEME
from testbed.evaluation.figures import AMENDED, LAYERS, UNCHANGED
from testbed.evaluation.figures.picture import save
from testbed.evaluation.figures.reproduction import (
    EMULATED,
    PAPER,
    SIZES,
    Case,
    Reproduction,
    Statement,
    Table,
)
from testbed.evaluation.figures.runner import Origin, Reproduced, keys_of, write_data
from testbed.support.errors import InputError

#: The folder of data beside the pages.
DATA = "data"
#: Columns of the table of claims.
CLAIM_COLUMNS = ("claim", "of", "predicted", "measured: median [band]", "holds")
#: Columns of a statement in the CSV, after its part and case.
_STATEMENT = ("claim", "predicted", "measured", "holds")
#: A longer table is in the CSV alone.
_ROWS = 12
#: More statements that differ in subject and numbers alone are a row of the page together; more subjects of
#: which a claim does not hold are counted.
_APART, _NAMED = 2, 6
_DIGITS = r"(?:(?<!\d)[-+])?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?"
#: A number of a cell, or a range, but no tolerance: claims that have different bars are different.
_NUMBER = re.compile(rf"(?<!within )(?<![\d.,])({_DIGITS})(?: to ({_DIGITS}))?")
#: The quantiles beside a median.
_BAND = re.compile(r" \[[^\]]*\]")


def command_of(origin: Origin) -> str:
    command = f"cbcb figure {origin.name} --size {origin.size} --seeds {origin.seeds}"
    return command if origin.engine == "simulate" else f"{command} --engine {origin.engine}"


def page_name(name: str, size: str, engine: str = "simulate") -> str:
    """Returns the name of a page's files, without suffix.

    A page of the paper's size that is simulated has the name of its figure. To any other name the size is
    added and, of runs that are emulated, `emulated`; of size `emulated`, simulated, `simulated`.
    """
    words = [name]
    if (size, engine) != (PAPER, "simulate"):
        words.append(size)
    if engine == "run" and size != EMULATED:
        words.append(EMULATED)
    elif engine == "simulate" and size == EMULATED:
        words.append("simulated")
    return "-".join(words)


def page_of(figure: Reproduction, origin: Origin, done: Reproduced, folder: Path) -> Path:
    """Writes `NAME.md`, `NAME.svg`, `NAME.csv` and `data/NAME.json.gz` of runs.

    Returns:
        The path of `NAME.md`.

    Raises:
        InputError: a file cannot be written.
    """
    place = folder / page_name(origin.name, origin.size, origin.engine)
    results = done.results
    statements = list(figure.judge(results))
    # A size may have no case for a table.
    tables = [table for table in figure.tables(results) if table.rows]
    lines = head(figure, origin)
    if done.failures:
        lines += ["", "Runs that failed, and are in no number of this page:", ""]
        lines += [f"- {each}" for each in done.failures]
    lines += ["", *table_lines(CLAIM_COLUMNS, _claims(statements))]
    lines += [line for paragraph in figure.explanation for line in ["", *_wrapped(paragraph)]]
    for table in tables:
        if table.on_page and len(table.rows) <= _ROWS:
            lines += ["", f"{table.title}:", "", *table_lines(table.columns, table.rows)]
    lines += tail(figure, origin, results)
    if done.code:
        lines += ["", *_wrapped(f"Code that made the runs: {', '.join(done.code)}.")]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        place.with_suffix(".md").write_text("\n".join([*lines, ""]), encoding="utf-8")
        _write_rows(place.with_suffix(".csv"), keys_of(figure, results, origin.engine), statements, tables)
        save(figure.panels(results), place.with_suffix(".svg"))
        write_data(folder / DATA / f"{place.name}.json.gz", figure, origin, done)
    except OSError as error:
        raise InputError(f"{error.filename}: cannot be written: {error.strerror}") from error
    return place.with_suffix(".md")


def _is_first(origin: Origin) -> bool:
    """Whether a page has the words of the paper, and the decisions behind the figure."""
    return origin.engine == "simulate" and origin.size in SIZES[:2]


def head(figure: Reproduction, origin: Origin) -> list[str]:
    """Returns the lines of a page before its claims: they do not depend on what was measured."""
    quoted = [line for sentence in figure.paper for line in _wrapped(sentence, "> ", "> ")]
    stem = page_name(origin.name, origin.size, origin.engine)
    picture = ["", f"![{figure.title}]({stem}.svg)"]
    return [f"# {figure.title}", *(["", *quoted] if _is_first(origin) else []), *picture]


def _rules(cases: Iterable[Mapping[str, str]], calculated: bool) -> str:
    """Returns whose rules ran in cases with these keys; a calculation has no defaults."""
    scheme, layer = ("", "") if calculated else (DEFAULT_SCHEME, LAYERS[0])
    ran: set[str] = set()
    for own in cases:
        ran |= {own.get("routing.scheme", own.get("scheme", scheme))}
        # A calculation on an experiment runs the attention-limited service alone, and so does its emulation.
        attention = "base" in own or "service.strategy" in own
        ran |= {"attention" if attention else own.get("broadcast.layer", own.get("layer", layer))}
    groups = [[f"`{name}`" for name in names if name in ran] for names in (UNCHANGED, AMENDED)]
    kinds = ("as in the papers", "[with differences](README.md#rules)")
    texts = [f"{', '.join(names)} ({kind})" for names, kind in zip(groups, kinds, strict=True) if names]
    return f"Rules: {'; '.join(texts) or 'no router ran'}."


def tail(figure: Reproduction, origin: Origin, cases: Iterable[Case]) -> list[str]:
    """Returns the lines of a page about the decisions behind it, and what its cases vary.

    The decisions are on the first pages of a figure; others name their place.
    """
    lines = ["", "Decisions and deviations:", ""]
    lines += [line for each in figure.deviations for line in _wrapped(each, "- ", "  ")]
    if not _is_first(origin):
        index = "[index](README.md#the-pages)"
        lines = ["", f"Paper, decisions, deviations: on the first page of `{origin.name}` in the {index}."]
    keys = keys_of(figure, cases, origin.engine)
    stem = page_name(origin.name, origin.size, origin.engine)
    names = dict.fromkeys(key for own in keys.values() for key in own)
    varied = [f"`{key}`" for key in names if len({own.get(key) for own in keys.values()}) > 1]
    return [
        *(lines if figure.deviations else []),
        "",
        f"Made by `{command_of(origin)}`.",
        "",
        *_wrapped(_rules(keys.values(), figure.calculates)),
        "",
        *_wrapped(
            f"[{stem}.csv]({stem}.csv): {len(keys)} cases, which vary {', '.join(varied) or 'no key'}."
        ),
    ]


def verdict_of(statement: Statement) -> str:
    return "shown" if statement.holds is None else "yes" if statement.holds else "**no**"


def _claims(statements: Sequence[Statement]) -> list[list[str]]:
    """Returns the rows of the claims; few subjects of which a claim does not hold are named."""
    groups: dict[tuple[str, ...], list[Statement]] = {}
    for each in statements:
        shapes = map(shape, (each.predicted, each.measured))
        groups.setdefault((each.claim, verdict_of(each), *shapes), []).append(each)
    rows = []
    for group in groups.values():
        for part in [group] if len(group) > _APART else [[each] for each in group]:
            subjects = [each.subject or "all" for each in part]
            named = len(part) == 1 or (part[0].holds is False and len(part) <= _NAMED)
            of = "; ".join(subjects) if named else f"{len(part)} cases"
            predicted, measured = [each.predicted for each in part], [each.measured for each in part]
            rows.append([part[0].claim, of, _ranges(predicted), _ranges(measured), verdict_of(part[0])])
    return rows


def merged(texts: Iterable[str]) -> str:
    """Returns texts in one, those that differ in numbers alone with the least and the greatest of each."""
    groups: dict[str, list[str]] = {}
    for text in texts:
        groups.setdefault(shape(text), []).append(text)
    return "; ".join(map(_ranges, groups.values()))


def shape(text: str) -> str:
    """Returns a text with each number as 0, without bands."""
    return _NUMBER.sub("0", _BAND.sub("", text))


def _ranges(texts: Sequence[str]) -> str:
    """Returns texts that differ in numbers alone as a text with the least and the greatest of each number.

    Bands are left out, but of a single text.
    """
    if len(set(texts)) == 1:
        return texts[0]
    plain = [_BAND.sub("", text) for text in texts]
    columns = zip(*(_NUMBER.findall(text) for text in plain), strict=True)
    ranges = [[number for pair in column for number in pair if number] for column in columns]
    ends = [(min(each, key=_value), max(each, key=_value)) for each in ranges]
    merged = iter(low if low == high else f"{low} to {high}" for low, high in ends)
    return _NUMBER.sub(lambda _: next(merged), plain[0])


def _value(number: str) -> float:
    return float(number.replace(",", ""))


def _write_rows(
    path: Path,
    keys: Mapping[str, Mapping[str, str]],
    statements: Iterable[Statement],
    tables: Iterable[Table],
) -> None:
    """Writes every row of a page as CSV; its first column names the part that the row is of."""
    rows = [{"part": "cases", "case": label, **own} for label, own in keys.items()]
    for each in statements:
        cells = (each.subject, each.claim, each.predicted, each.measured, verdict_of(each).strip("*"))
        rows.append(dict(zip(("part", "case", *_STATEMENT), ("statements", *cells), strict=True)))
    for table in tables:
        rows += [{"part": table.title, **dict(zip(table.columns, row, strict=True))} for row in table.rows]
    with path.open("w", encoding="utf-8", newline="") as file:
        columns = list(dict.fromkeys(key for row in rows for key in row))
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _wrapped(text: str, first: str = "", further: str = "") -> list[str]:
    return textwrap.wrap(
        text,
        160,
        initial_indent=first,
        subsequent_indent=further,
        break_on_hyphens=False,
        break_long_words=False,
    )


def table_lines(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [_row(columns), _row(["---"] * len(columns)), *map(_row, rows)]


def _row(cells: Sequence[str]) -> str:
    # A bar such as that of |M| would begin a cell.
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"
