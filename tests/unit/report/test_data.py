"""The report reads tables and columns that the accounting writes."""

from __future__ import annotations

from captures import tables
from testbed.results.report.data import TABLES


def test_tables_and_columns_of_the_report_are_in_the_catalogue() -> None:
    unknown = [
        f"{name}.{column}"
        for name, columns in TABLES.items()
        for column in columns
        if column not in tables.TABLES[name].schema.names
    ]
    assert unknown == []
