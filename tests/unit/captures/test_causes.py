"""The RAs that changes of predicates caused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from captures.accounting.direct import Direct
from captures.accounting.inputs import Inputs
from captures.accounting.log_tables import DECLARED
from captures.accounting.steps import values
from captures.rundir import RunLayout
from tests.support.run_folder import asked_run
from tests.support.texts import answer

_START = 7 << 32
_MS = 1_000_000


def _tables(
    waves: list[tuple[int, int, int, str]], declared: list[tuple[int, str, int]], wait_ms: int = 100
) -> Any:
    """The changes and RAs of node 3.

    Args:
        waves: sequence number, epoch, time and predicate of each RA.
        declared: time, application and number of filters of each change.
        wait_ms: the longest time from a change to its RA.

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
        | {"place": place}
        for place, (ns, app, filters) in enumerate(declared)
    ]
    inputs = {
        "waves": pa.Table.from_pylist(rows, schema=pa.schema(columns)),
        "declared": pa.Table.from_pylist(changes, schema=DECLARED),
    }
    wait_ns = str(wait_ms * _MS)
    found = [answer(name, inputs, wait_ns=wait_ns) for name in ("predicate_changes", "advertisements")]
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


def test_a_change_that_is_covered_is_not_answered_by_the_ra_of_a_later_change() -> None:
    waves = [(_START + 1, 1, 10 * _MS, "a < 9"), (_START + 2, 1, 901 * _MS, "a < 9 or b = 1")]
    # The predicate of application two is covered by that of application one until it has a second filter.
    declared = [(9 * _MS, "one", 1), (500 * _MS, "two", 1), (900 * _MS, "two", 2)]
    seqs, causes = _tables(waves, declared)
    assert seqs == {9 * _MS: _START + 1, 500 * _MS: None, 900 * _MS: _START + 2}
    assert causes == {_START + 1: ("predicate", 1), _START + 2: ("predicate", 1)}


def test_changes_while_an_ra_waits_are_answered_by_it() -> None:
    waves = [(_START + 1, 1, 10 * _MS, "a < 9"), (_START + 2, 1, 510 * _MS, "a < 9 or b = 1 or c = 1")]
    declared = [(9 * _MS, "one", 1), (50 * _MS, "two", 1), (400 * _MS, "two", 2)]
    seqs, _ = _tables(waves, declared, wait_ms=600)
    assert seqs == {9 * _MS: _START + 1, 50 * _MS: _START + 2, 400 * _MS: _START + 2}


def test_a_late_ra_answers_a_change_that_no_other_change_follows() -> None:
    waves = [(_START + 1, 1, 10 * _MS, "a < 9"), (_START + 2, 1, 900 * _MS, "b = 1")]
    seqs, _ = _tables(waves, [(9 * _MS, "one", 1), (500 * _MS, "one", 1)])
    assert seqs == {9 * _MS: _START + 1, 500 * _MS: _START + 2}


@pytest.mark.parametrize("predicates", [("a < 9", "b = 1"), ("encoded, 2 filters", "encoded, 1 filter")])
def test_the_first_ra_of_a_router_answers_all_changes_before_it(predicates: tuple[str, str]) -> None:
    # They wait for the first epoch.
    first, second = predicates
    waves = [(_START + 1, 1, 2_000 * _MS, first), (_START + 2, 1, 3_001 * _MS, second)]
    declared = [(9 * _MS, "one", 1), (900 * _MS, "two", 1), (3_000 * _MS, "two", 0)]
    seqs, causes = _tables(waves, declared)
    assert seqs == {9 * _MS: _START + 1, 900 * _MS: _START + 1, 3_000 * _MS: _START + 2}
    assert causes == {_START + 1: ("predicate", 2), _START + 2: ("predicate", 1)}


def test_private_ras_of_as_many_filters_are_not_taken_for_repetitions() -> None:
    waves = [(_START + 1, 1, 10 * _MS, "encoded, 1 filter"), (_START + 2, 1, 501 * _MS, "encoded, 1 filter")]
    seqs, causes = _tables(waves, [(9 * _MS, "one", 1), (500 * _MS, "one", 1)])
    assert seqs == {9 * _MS: _START + 1, 500 * _MS: _START + 2}
    assert causes == {_START + 1: ("predicate", 1), _START + 2: ("predicate", 1)}


def test_a_late_private_ra_has_another_cause() -> None:
    waves = [(_START + 1, 1, 10 * _MS, "encoded, 1 filter"), (_START + 2, 2, 901 * _MS, "encoded, 1 filter")]
    seqs, causes = _tables(waves, [(9 * _MS, "one", 1), (500 * _MS, "two", 1)])
    assert seqs == {9 * _MS: _START + 1, 500 * _MS: None}
    assert causes == {_START + 1: ("predicate", 1), _START + 2: ("epoch", 0)}


def test_an_ra_may_wait_as_long_as_the_experiment_says(tmp_path: Path) -> None:
    run = RunLayout(asked_run().write(tmp_path / "run"))
    assert values(Inputs(run))["wait_ns"] == str(100 * _MS)
    run.experiment.write_text("[protocol]\nra_min_interval_s = 5\nra_jitter_s = 0.5\n")
    # Ten experiment seconds a wall second.
    assert values(Inputs(run))["wait_ns"] == str(650 * _MS)


@pytest.mark.parametrize(
    ("kinds", "expected"), [(("host", "link"), [(2, 2), (2, 2)]), (("link",), [(None, 2)] * 2), ((), [])]
)
def test_routers_that_an_ra_reached_are_unknown_without_captures_of_hosts(
    tmp_path: Path, kinds: tuple[str, ...], expected: list[tuple[int | None, int]]
) -> None:
    run = asked_run()
    run.pcaps = {name: records for name, records in run.pcaps.items() if name.partition("-")[0] in kinds}
    with Direct(run.write(tmp_path / "run"), whole=True) as direct:
        advertisements = direct.table("advertisements").to_pylist()
        assert sorted((row["routers"], row["frames"]) for row in advertisements) == expected
        assert direct.table("predicate_changes").num_rows == 3
        assert bool(direct.table("hops").num_rows) is ("host" in kinds)
