"""Names and units of the columns of tables; the texts and inputs that make the tables fit together."""

from __future__ import annotations

import re
from collections import defaultdict
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from captures.accounting.conclusion import ANSWERS
from captures.accounting.engines import CAPTURED
from captures.accounting.inputs import Inputs
from captures.accounting.steps import INPUTS, reads_of, values
from captures.accounting.texts import in_order, texts
from captures.datasource.opening import FLOWS, open_captures
from captures.datasource.views import CBCB_VIEWS, PCAP_VIEWS
from captures.rundir import RunLayout
from captures.tables import CLOCKS, SHARED, TABLES
from captures.tables.document import EXAMPLES
from tests.support.capture_files import pcap
from tests.support.paths import DOCS
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


def test_counts_have_a_unit() -> None:
    counts = ("frames", "bytes", "deliveries")
    assert [f"{t}.{c.name}" for t, c in _COLUMNS if c.name.endswith(counts) and not c.unit] == []


def test_what_a_text_reads_is_made_and_in_no_circle() -> None:
    known = {*texts(), *INPUTS, CAPTURED}
    graph = {name: reads_of(name) for name in texts()}
    assert {
        f"{name}: {read}" for name, names in graph.items() for read in names if read not in known
    } == set()
    # Raises CycleError where texts read each other in a circle.
    assert {*TopologicalSorter(graph).static_order()} <= known


def test_everything_is_used() -> None:
    assert {*in_order((*TABLES, *ANSWERS), reads_of)} == {*texts(), *INPUTS, CAPTURED}


@pytest.mark.parametrize("name", texts())
def test_a_text_begins_with_what_a_row_is_and_names_no_step_twice(name: str) -> None:
    assert re.match(r"-- (A|The only) row (is|has) ", texts()[name])
    assert not {*re.findall(r"(\w+) as \(", texts()[name])} & {*texts(), *INPUTS}, "a name of its own"


def test_every_value_is_used(tmp_path: Path) -> None:
    run = RunLayout(asked_run().write(tmp_path / "run"))
    named = {value for text in texts().values() for value in re.findall(r"\$(\w+)", text)}
    assert values(Inputs(run)).keys() == named


_COLUMNS = [(table.name, column) for table in TABLES.values() for column in table.columns]
#: Units that name no time of their own, though they hold a word of one.
_TIMES = ("wall s", "wall ms", "experiment s", "experiment us", "ns since")


@pytest.mark.parametrize(("table", "column"), _COLUMNS, ids=[f"{t}.{c.name}" for t, c in _COLUMNS])
def test_the_end_of_a_name_says_the_clock(table: str, column: object) -> None:
    del table
    name, unit = column.name, column.unit  # type: ignore[attr-defined]
    expected = next((unit for end, unit in CLOCKS.items() if name.endswith(end)), None)
    if expected is not None:
        assert unit.endswith(expected)
        assert unit == expected or expected.startswith("/")
    elif name != "bandwidth_mbps":
        assert not any(time in unit for time in _TIMES)


def test_the_columns_of_several_tables_are_declared_once_with_type_unit_and_meaning() -> None:
    of_name = defaultdict(list)
    for _, column in _COLUMNS:
        of_name[column.name].append((column.type, column.unit))
    assert {name for name, found in of_name.items() if len(found) > 1} == set(SHARED)
    assert {name for name, found in of_name.items() if len(set(found)) > 1} == set()


def test_a_name_has_one_type_in_all_views_of_captures_and_in_all_tables(tmp_path: Path) -> None:
    kinds = defaultdict(set)
    for _, column in _COLUMNS:
        kinds[column.name].add(column.type)
    for view in ({**PCAP_VIEWS, **CBCB_VIEWS}).values():
        for name, (arrow, _) in view.items():
            kinds[name].add(arrow)
    (tmp_path / "a.pcap").write_bytes(pcap([]))
    for field in open_captures(tmp_path / "a.pcap", FLOWS).schema:
        kinds[field.name].add(field.type)
    assert {name: found for name, found in kinds.items() if len(found) > 1} == {}


def test_a_table_of_messages_or_of_advertisements_has_the_parts_of_seq() -> None:
    parts = [name for name, table in TABLES.items() if {"incarnation", "number"} < set(table.schema.names)]
    assert parts == ["messages", "advertisements", "publications"]


def test_generated_pages_of_tables_and_of_the_run_folder_have_no_long_line() -> None:
    for page in ("tables", "run-folder"):
        lines = (DOCS / f"reference/{page}.md").read_text().splitlines()
        assert [line for line in lines if len(line) > 160] == []


def test_the_questions_are_of_at_most_four_lines() -> None:
    assert [question for question, sql in EXAMPLES if sql.count("\n") > 3] == []


def test_no_question_divides_by_a_count_less_something() -> None:
    """Spark computes columns before HAVING leaves out a group, and a division by 0 ends its query."""
    assert [question for question, sql in EXAMPLES if "/ (count(" in sql] == []
