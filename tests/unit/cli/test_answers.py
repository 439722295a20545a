"""The list of tables that `cbcb query --tables` prints."""

from __future__ import annotations

from captures.tables.query import Description
from testbed.terminal.answers import described


def test_a_list_of_structs_is_no_struct() -> None:
    fields = "struct(start_ns bigint, experiment_s double, rate double)"
    columns = (("clock", f"{fields}[]", "pieces"), ("piece", fields, "one"), ("nodes", "integer[]", "nodes"))
    assert list(described([Description("run", "run", columns)])) == [
        "run: one row for each run",
        "  clock  struct[]   pieces",
        "  piece  struct     one",
        "  nodes  integer[]  nodes",
    ]
