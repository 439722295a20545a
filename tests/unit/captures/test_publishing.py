"""Tables, the record of the accounting that made them, and the summary replace older ones together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from captures.accounting.account import account_directly
from captures.rundir import RunLayout
from captures.tables import store
from router.records.json_file import write_json
from tests.support.run_folder import asked_run


@pytest.fixture
def run(tmp_path: Path) -> RunLayout:
    """A run whose accounting and summary are of an older one."""
    run = RunLayout(asked_run().write(tmp_path / "run"))
    account_directly(run.path, lambda summary: write_json(run.summary, summary))
    run.accounting.write_text('{"engine": "older"}')
    run.summary.write_text('{"verdict": "older"}')
    return run


def _engines(run: RunLayout) -> list[str]:
    """The engines that the record of the accounting and the summary name."""
    of_tables = json.loads(run.accounting.read_text())
    of_summary = json.loads(run.summary.read_text())
    return [of_tables["engine"], of_summary.get("rests_on", {}).get("engine", of_summary["verdict"])]


def test_the_record_of_the_accounting_is_in_place_before_the_summary(run: RunLayout) -> None:
    seen = []

    def publish(summary: dict[str, Any]) -> None:
        seen.append(_engines(run))
        write_json(run.summary, summary)
        seen.append(_engines(run))

    account_directly(run.path, publish)
    assert seen == [["duckdb", "older"], ["duckdb", "duckdb"]]
    assert _engines(run) == ["duckdb", "duckdb"]
    assert store.lacking(run.path, ()) is None


def test_a_summary_that_cannot_be_written_leaves_the_older_record(run: RunLayout) -> None:
    def publish(_summary: dict[str, Any]) -> None:
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        account_directly(run.path, publish)
    assert _engines(run) == ["older", "older"]
    assert store.lacking(run.path, ()) is None


@pytest.mark.parametrize("written", [False, True])
def test_an_end_while_the_summary_is_written_leaves_no_older_record_beside_it(
    run: RunLayout, written: bool
) -> None:
    def publish(summary: dict[str, Any]) -> None:
        if written:
            write_json(run.summary, summary)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        account_directly(run.path, publish)
    assert _engines(run) == ["duckdb", "duckdb" if written else "older"]
    assert "the accounting was interrupted" in str(store.lacking(run.path, ()))
