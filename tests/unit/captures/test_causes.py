"""The RAs that changes of predicates caused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from captures.accounting.common_tables import CAUSES, in_duckdb, query
from captures.accounting.direct import Direct
from captures.accounting.log_tables import DECLARED
from captures.rundir.clock import Clock
from tests.support.run_folder import asked_run

_CLOCK = Clock.steady(0, 1.0)
_START = 7 << 32


def _tables(waves: list[tuple[int, int, int, str]], declared: list[tuple[int, str, int]]) -> Any:
    """The changes and RAs of node 3.

    Args:
        waves: sequence number, epoch, time and predicate of each RA.
        declared: time, application and number of filters of each change.

    Returns the RAs of the changes by their times, and cause and changes of the RAs.
    """
    rows = [
        {"issuer": 3, "seq": seq, "epoch": epoch, "predicate": predicate, "first_ns": ns, "last_ns": ns + 5}
        | {"routers": 2, "frames": 2, "bytes": 200}
        for seq, epoch, ns, predicate in waves
    ]
    columns = [("issuer", pa.int64()), ("seq", pa.int64()), ("epoch", pa.int64()), ("predicate", pa.string())]
    columns += [(name, pa.int64()) for name in ("first_ns", "last_ns", "routers", "frames", "bytes")]
    changes = [
        {"node": 3, "app": app, "t_ns": ns + 1, "predicate": "x", "filters": filters, "requested_ns": ns}
        for ns, app, filters in declared
    ]
    with duckdb.connect() as database:
        database.register("waves", pa.Table.from_pylist(rows, schema=pa.schema(columns)))
        database.register("declared", pa.Table.from_pylist(changes, schema=DECLARED))
        database.execute(f"create temp table changes as {query('changes', _CLOCK)}")
        found = [in_duckdb(database, name, _CLOCK, {"all_hosts": "true"}) for name in CAUSES]
    return (
        {row["requested_ns"]: row["seq"] for row in found[0].to_pylist()},
        {row["seq"]: (row["cause"], row["changes"]) for row in found[1].to_pylist()},
    )


@pytest.mark.parametrize(("epoch", "cause"), [(2, "epoch"), (1, None)])
def test_an_ra_that_repeats_a_predicate_has_no_change_as_its_cause(epoch: int, cause: str | None) -> None:
    # The first application's predicate covers that of the second: no RA until the epoch or period.
    waves = [
        (_START + 1, 1, 10, "a < 9"),
        (_START + 2, epoch, 900, "a < 9"),
        (_START + 3, epoch, 950, "b = 1"),
    ]
    seqs, causes = _tables(waves, [(9, "one", 1), (20, "two", 1), (940, "two", 1)])
    assert seqs == {9: _START + 1, 20: None, 940: _START + 3}
    assert causes == {_START + 1: ("predicate", 1), _START + 2: (cause, 0), _START + 3: ("predicate", 1)}


def test_a_router_that_was_started_a_second_time_repeats_nothing() -> None:
    waves = [(_START + 1, 1, 10, "a < 9"), (_START + (1 << 32) + 1, 2, 500, "a < 9")]
    seqs, _ = _tables(waves, [(9, "one", 1), (490, "one", 1)])
    assert seqs == {9: _START + 1, 490: _START + (1 << 32) + 1}


def test_one_ra_answers_several_changes_and_a_withdrawal_one_without_a_filter() -> None:
    waves = [(_START + 1, 1, 30, "a < 9"), (_START + 2, 1, 100, "none")]
    seqs, causes = _tables(waves, [(9, "one", 1), (20, "two", 2), (50, "one", 0), (60, "two", 0)])
    assert seqs == {9: _START + 1, 20: _START + 1, 50: _START + 2, 60: _START + 2}
    assert causes == {_START + 1: ("predicate", 2), _START + 2: ("predicate", 2)}


@pytest.mark.parametrize(
    ("kinds", "expected"), [(("host", "link"), [(2, 2), (2, 2)]), (("link",), [(None, 2)] * 2), ((), [])]
)
def test_routers_that_an_ra_reached_are_unknown_without_captures_of_hosts(
    tmp_path: Path, kinds: tuple[str, ...], expected: list[tuple[int | None, int]]
) -> None:
    run = asked_run()
    run.pcaps = {name: records for name, records in run.pcaps.items() if name.partition("-")[0] in kinds}
    with Direct(run.write(tmp_path / "run"), whole=True) as direct:
        tables = dict(direct.all_tables())
    assert [(row["routers"], row["frames"]) for row in tables["advertisements"].to_pylist()] == expected
    assert tables["predicate_changes"].num_rows == 3
    assert bool(tables["hops"].num_rows) is ("host" in kinds)
