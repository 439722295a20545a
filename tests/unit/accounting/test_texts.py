"""Every table of the catalogue has one text or input that makes it, and the texts fit together."""

from __future__ import annotations

import re
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from captures.accounting.conclusion import ANSWERS
from captures.accounting.engines import CAPTURED
from captures.accounting.inputs import Inputs
from captures.accounting.steps import INPUTS, MADE, reads_of, values
from captures.accounting.texts import in_order, reads, texts, written_out
from captures.rundir import RunLayout
from captures.rundir.clock import Clock
from captures.tables import TABLES
from tests.support.run_folder import asked_run


def test_every_table_is_made_once() -> None:
    assert not texts().keys() & INPUTS.keys()
    assert TABLES.keys() <= texts().keys() | INPUTS.keys()


def test_columns_are_named_once_in_a_table_and_have_a_meaning() -> None:
    for table in TABLES.values():
        names = table.schema.names
        assert len(set(names)) == len(names), table.name
        assert all(column.meaning for column in table.columns), table.name
        assert table.folders_by is None or table.folders_by in names


def test_times_and_counts_have_a_unit() -> None:
    lacking = [
        f"{table.name}.{column.name}"
        for table in TABLES.values()
        for column in table.columns
        if column.name.endswith(("_s", "_ns", "_us", "_ms", "frames", "bytes", "deliveries"))
        and not column.unit
    ]
    assert lacking == []


def test_what_a_text_reads_is_made_and_in_no_circle() -> None:
    known = {*texts(), *INPUTS, *MADE, CAPTURED}
    graph = {name: reads_of(name) for name in (*texts(), *MADE)}
    assert {
        f"{name}: {read}" for name, names in graph.items() for read in names if read not in known
    } == set()
    # Raises CycleError where texts read each other in a circle.
    assert {*TopologicalSorter(graph).static_order()} <= known


def test_everything_is_used() -> None:
    assert {*in_order((*TABLES, *ANSWERS), reads_of)} == {*texts(), *INPUTS, *MADE, CAPTURED}


@pytest.mark.parametrize("name", texts())
def test_a_text_begins_with_what_a_row_is_and_names_no_step_twice(name: str) -> None:
    assert re.match(r"-- (A|The only) row (is|has) ", texts()[name])
    assert not {*re.findall(r"(\w+) as \(", texts()[name])} & {*texts(), *INPUTS}, "a name of its own"


def test_reads_are_the_names_that_a_text_does_not_define() -> None:
    text = """-- from nowhere
    with recursive a as (select 1 from b), c as (select * from a join d using (x))
    select * from c left join e on e.x = c.x cross join (values (1)) as f (y) cross join range(3)"""
    assert reads(text) == reads(text.upper()) == {"b", "d", "e"}


def test_values_and_times_are_written_out() -> None:
    text = (
        "select experiment_s(t_ns), bin_wall_s(s), incarnation(x.seq), number(seq), $bins from x -- $unknown"
    )
    found = written_out(text, Clock.steady(5, 2.0), {"bins": "7", "bin_s": "1.0"})
    assert found == (
        "select ((t_ns - 5) * 2.0000000000000000e+00 / 1.0000000000000000e+09 + 0.0000000000000000e+00),"
        " 5.0000000000000000e-01, ((x.seq >> 32) & 4294967295), (seq & 4294967295), 7 from x "
    )
    with pytest.raises(KeyError, match="unknown"):
        written_out("$unknown", Clock.steady(5, 2.0), {})


def test_every_value_is_used(tmp_path: Path) -> None:
    run = RunLayout(asked_run().write(tmp_path / "run"))
    named = {value for text in texts().values() for value in re.findall(r"\$(\w+)", text)}
    assert values(Inputs(run)).keys() == named
