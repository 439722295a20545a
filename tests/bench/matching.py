"""The engine `compiled` beside the published matching algorithms, rebuilt in `tests/bench/peers`.

Each row is an engine on a table; each table is a cell of the grid. `us` is microseconds of a message, without
the making of a set of the answer; `batch` is microseconds of the processor if a call searches for all
messages. `ratio` is to `compiled`, the median of the blocks, with its quartiles `low` and `high`, and `~`
where they are far apart; `alone` is the ratio without `call`, which searches nothing, but reads the
attributes if the engine does. B/c is bytes a constraint (an interval), as the engine counts them and as its
process has grown. `insert` and `delete` are microseconds, Python's part included, until a search finds the
change; on P8, the whole predicate of an interface changes. `checked` answers were compared with a scan; a
wrong one makes the row void.

P8 has the whole language of predicates, and answers as sets. Its reference times of Siena Fast Forwarding
(SFF 2.0.1, optimised build, matching alone, two cores like those that this project is developed on) were
measured once, elsewhere.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from router.matching.columns import to_predicates
from router.matching.engines import ENGINES
from testbed.experiments.siena_ff.generate import MatchingWorkload, draw_messages, draw_table
from tests.bench.matching_limit import show_limits
from tests.bench.peers import PEERS
from tests.bench.peers.engines import ByInterface, Compiled, Whole
from tests.bench.peers.equality import check, points_at_bounds
from tests.bench.peers.measuring import TIMED, WARM_UP, Measured, Task, measure
from tests.bench.peers.workloads import WORKLOADS, draw

#: Interfaces -> constraints -> microseconds a message of SFF. 10,000: 4 to 6.
_SFF_US = {
    10: {10_000: 5, 100_000: 13, 1_000_000: 38, 5_000_000: 127},
    100: {10_000: 5, 100_000: 30, 1_000_000: 567},
    1_000: {10_000: 5, 100_000: 28, 1_000_000: 1_120, 5_000_000: 12_200},
}
_LANGUAGE, _BASE = "P8", "compiled"
#: Messages whose answers are compared, the timed ones among them, and single changes.
_MESSAGES, _CHANGES = 1_000 + WARM_UP + TIMED, 1_000
#: Interfaces of P8 whose predicates are replaced.
_REPLACED = 25


#: Engines of the published table; those of other options are measured where they are named.
_PEERS = ("bitvectors", "rein", "tama", "tama-approximate", "counting", "betree-20", "opindex-sorted")


@dataclass(frozen=True)
class Cell:
    """A table of the grid.

    Attributes:
        filters: for P8, the constraints.
        interfaces: 0: an interface for each filter, so that all engines find filters.
        engines: those that are measured unless engines are named; `compiled` and the reference are anyway.
    """

    workload: str
    filters: int
    interfaces: int = 0
    engines: tuple[str, ...] = field(default=_PEERS, compare=False)


GRID = (
    *(Cell("P1", filters, 0, (*_PEERS, "duckdb")) for filters in (10_000, 100_000, 1_000_000)),
    *(Cell("P1", 100_000, interfaces, (*_PEERS, "duckdb")) for interfaces in (100, 1_000)),
    *(Cell(name, 100_000) for name in ("P2", "P2-zipf1.5", "P4", "S1")),
    *(Cell(name, 20_000, 0, (*_PEERS, "opindex", "htree")) for name in ("P3", "P3-w0.1")),
    Cell("P5", 100_000, 0, (*_PEERS, "opindex", "htree")),
    *(Cell(name, 100_000, 0, (*_PEERS, "opindex")) for name in ("tags", "ticks")),
    Cell("ticks", 100_000, 100, (*_PEERS, "opindex")),
    Cell("S1", 100_000, 100),
    Cell("S1", 1_000_000),
    *(Cell(name, WORKLOADS[name].filters) for name in WORKLOADS if name.startswith("S2")),
    *(Cell(_LANGUAGE, number, 100, ("counting",)) for number in (10_000, 100_000, 1_000_000)),
    Cell(_LANGUAGE, 1_000_000, 1_000, ("counting",)),
)
_COLUMNS = (
    *("engine", "build s", "insert", "delete", "B/c", "B/c grown", "call", "us", "99 %"),
    *("batch", "ratio", "low", "high", "alone", "matches", "checked", "note"),
)
#: Quartiles that are further apart, by the median, are marked.
_WIDE = 0.2
#: Filters, or constraints, of the table that warms an engine up.
_SMALL = 200


def main(
    workloads: Sequence[str] = (*WORKLOADS, _LANGUAGE),
    filters: int = 0,
    interfaces: int = -1,
    engines: Sequence[str] = ("",),
    blocks: int = 15,
    seed: int = 1,
    rows: str = "",
    equality: int = 0,
    limit: bool = False,
) -> None:
    """Prints the rows of each cell of the grid once they are measured.

    Args:
        filters, interfaces: of all tables, in place of those of the grid.
        engines: in place of those of the grid; `compiled` and the reference are measured anyway.
        rows: file (JSON lines) that the rows are added to; cells that it has are not measured again.
        equality: compare each engine with a scan on so many pairs of a random table and a message instead.
        limit: count what a search of `compiled` does instead, see `tests/bench/matching_limit.py`.
    """
    if unknown := {*workloads} - {*WORKLOADS, _LANGUAGE}:
        raise SystemExit(f"unknown workload {min(unknown)!r}; expected {', '.join(WORKLOADS)} or {_LANGUAGE}")
    for name in ([name for name in engines if name] or PEERS) if equality else ():
        if name != "brute":
            tables, pairs, matches = check(name, equality // (100 if name == "duckdb" else 1), seed)
            print(f"{name:16} {pairs:,} pairs, {tables:,} tables, {matches:,} matches: equal", flush=True)
    cells = [] if equality else [cell for cell in GRID if cell.workload in workloads]
    if filters:
        cells = [replace(cell, filters=filters) for cell in cells]
    if interfaces >= 0:
        cells = [replace(cell, interfaces=interfaces or int(cell.workload == _LANGUAGE)) for cell in cells]
    if limit:
        show_limits(dict.fromkeys(cells), seed)
        return
    file = Path(rows or os.devnull)
    kept = [json.loads(line) for line in file.read_text("utf-8").splitlines()] if file.exists() else []
    done = {Cell(row["workload"], row["filters"], row["interfaces"]) for row in kept}
    for cell in dict.fromkeys(cells):
        if cell not in done:
            reference = "naive" if cell.workload == _LANGUAGE else "brute"
            asked = [name for name in engines if name] or cell.engines
            names = [_BASE, reference, *(name for name in asked if not _why_not(name, cell))]
            task = task_of(cell, dict.fromkeys(names), seed)
            found = measure(task, blocks, seed)
            made = [_row(cell, task, found, reference, name) for name in dict.fromkeys([*names, *asked])]
            _print(cell, task, made)
            where = {"workload": cell.workload, "filters": cell.filters, "interfaces": cell.interfaces}
            with file.open("a", encoding="utf-8") as lines:
                for row in made:
                    print(json.dumps({**where, "blocks": blocks, "seed": seed, **row}), file=lines)


def task_of(cell: Cell, names: Iterable[str], seed: int) -> Task:
    return (_language if cell.workload == _LANGUAGE else _boxes)(cell, names, seed)


def _boxes(cell: Cell, names: Iterable[str], seed: int) -> Task:
    workload = replace(WORKLOADS[cell.workload], filters=cell.filters, messages=_MESSAGES, seed=seed)
    boxes, points = draw(workload, 0 if cell.interfaces else _CHANGES)
    small, _ = draw(replace(workload, filters=_SMALL, messages=1))
    more, _ = draw(replace(workload, filters=_CHANGES, messages=1, seed=seed + 1))

    def make(name: str, of_few: bool) -> Any:
        table = small if of_few else boxes
        if not cell.interfaces:
            return PEERS[name](table)
        interface = (1 + np.arange(table.room) * cell.interfaces // table.room).astype(np.int32)
        return Compiled(table, interface) if name == _BASE else ByInterface(PEERS[name](table), interface)

    makes = {name: partial(make, name) for name in names}
    messages = [*points, *points_at_bounds(boxes, 10)]
    if cell.interfaces:
        return Task(makes, messages, [], len(boxes.slot))
    changes = [(cell.filters + number, *more.rows(number)) for number in range(_CHANGES)]
    return Task(makes, messages, changes, len(boxes.slot), workload.expected)


def _language(cell: Cell, names: Iterable[str], seed: int) -> Task:
    workload = MatchingWorkload(cell.filters, cell.interfaces, _MESSAGES, seed)
    table, small = draw_table(workload), draw_table(replace(workload, constraints=_SMALL, interfaces=1))

    few = min(_REPLACED, cell.interfaces)
    size = cell.filters // cell.interfaces * few
    others = draw_table(replace(workload, constraints=size, interfaces=few, seed=seed + 1))

    def make(name: str, of_few: bool) -> Whole:
        return Whole(name, small if of_few else table)

    messages = [(message,) for message in draw_messages(workload)]
    changes = [*to_predicates(others).items()]
    return Task({name: partial(make, name) for name in names}, messages, changes, cell.filters)


def _why_not(engine: str, cell: Cell) -> str:
    """Why an engine is not measured on a table; "" if it is."""
    if cell.workload == _LANGUAGE:
        return "" if engine in ENGINES else "boxes only"
    return "" if engine in PEERS else "no boxes"


def _row(cell: Cell, task: Task, found: Mapping[str, Measured], right: str, name: str) -> dict[str, Any]:
    """The row of an engine, by the names of the columns; what was not measured is None."""
    measured, base = found.get(name, Measured(why_not=_why_not(name, cell))), found[_BASE]
    if measured.why_not:
        return dict.fromkeys(_COLUMNS) | {"engine": name, "note": measured.why_not}
    low, ratio, high = measured.ratios(base)
    matches = [count for count, _ in measured.answers[:_MESSAGES]]
    notes = ["~"] if high - low > _WIDE * ratio else []
    if (wrong := measured.wrong(found[right])) is not None:
        notes.append(f"VOID: message {wrong}")
    if not measured.exact:
        more = [own - its for own, (its, _) in zip(matches, found[right].answers, strict=False)]
        notes.append(f"{np.mean(more) / cell.filters:.3%} false")
    if cell.workload == _LANGUAGE and (sff := _SFF_US.get(cell.interfaces, {}).get(cell.filters)):
        notes.append(f"SFF {sff:,} us: {sff / measured.us:.2f}")
    values = (
        *(name, measured.build_s, measured.insert_us, measured.delete_us),
        *(measured.own / task.constraints or None, measured.grown / task.constraints, measured.idle_us),
        *(measured.us, float(np.percentile(np.concatenate(measured.blocks), 99))),
        *(measured.batch_us, ratio, low, high),
        *((measured.us - measured.idle_us) / (base.us - base.idle_us), float(np.mean(matches))),
        *(len(measured.answers), " ".join(notes)),
    )
    return dict(zip(_COLUMNS, values, strict=True))


def _print(cell: Cell, task: Task, rows: Sequence[Mapping[str, Any]]) -> None:
    of = f"{cell.interfaces:,} interfaces" if cell.interfaces else "an interface each"
    expected = "" if task.expected is None else f", N w^k = {task.expected:,.1f} matches a message"
    filters = "" if cell.workload == _LANGUAGE else f"{cell.filters:,} filters, "
    print(f"\n{cell.workload}: {filters}{task.constraints:,} constraints, {of}{expected}")
    for row in [dict(zip(_COLUMNS, _COLUMNS, strict=True)), *rows]:
        numbers = " ".join(f"{_shown(row[name]):>9}" for name in _COLUMNS[1:-1])
        print(f"{row['engine']:>16} {numbers}  {row['note']}".rstrip(), flush=True)


def _shown(value: float | str | None) -> str:
    if value is None or isinstance(value, str):
        return value or "-"
    return f"{value:,.{0 if isinstance(value, int) or value >= 1_000 else 1 if value >= 10 else 2}f}"
