"""Queries of DuckDB take a share of the memory, leave nothing behind, and end with Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
from functools import partial
from pathlib import Path

import psutil
import pytest

from captures.accounting.account import account_directly
from captures.rundir.files import RunFolderError
from captures.rundir.layout import RunLayout
from captures.rundir.summary import write_summary
from captures.tables.query import ask
from testbed.api import Result
from testbed.cli.main import main
from tests.support.command import CBCB
from tests.support.polling import poll
from tests.support.run_folder import good_run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = good_run().write(tmp_path / "run")
    account_directly(folder, partial(write_summary, RunLayout(folder)))
    return folder


def _settings(run: Path) -> dict[str, str]:
    sql = "select name, value from duckdb_settings() where name in ('memory_limit', 'temp_directory')"
    return {row["name"]: row["value"] for batch in ask(run, sql) for row in batch.to_pylist()}


def test_a_query_spills_into_a_temporary_folder_that_goes(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "t"))
    (tmp_path / "t").mkdir()
    monkeypatch.chdir(tmp_path)
    spilled = Path(_settings(run)["temp_directory"])
    assert spilled.parent == tmp_path / "t"
    assert [*spilled.parent.iterdir()] == []
    assert not (tmp_path / ".tmp").exists()


def test_a_query_takes_at_most_half_of_the_free_memory(run: Path) -> None:
    number, unit = _settings(run)["memory_limit"].split()
    limit = float(number) * 1024 ** {"MiB": 2, "GiB": 3}[unit]
    assert limit < 0.6 * psutil.virtual_memory().total


def test_ctrl_c_ends_a_query(run: Path) -> None:
    sql = "select sum(a.range * b.range % 7) from range(100000000) a, range(100000) b"
    command = ["env", "--default-signal=INT", *CBCB, "query", str(run), sql]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as query:
        try:
            process = psutil.Process(query.pid)
            # Of a processor: more than the command takes before the query runs.
            poll(lambda: process.cpu_times().user > 4 or None, 120, "the query runs")
            os.kill(query.pid, signal.SIGINT)
            output, errors = query.communicate(timeout=60)
        finally:
            query.kill()
    assert (query.returncode, output, errors) == (130, "", "cbcb: interrupted\n")


@pytest.mark.attack("hostile run folder")
@pytest.mark.parametrize("place", ["tail", "pages"])
def test_a_damaged_table_is_an_error_that_names_it(
    run: Path, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    table = RunLayout(run).tables / "false_negative_curve"
    (file,) = table.glob("*.parquet")
    content = bytearray(file.read_bytes())
    damaged = slice(-4, None) if place == "tail" else slice(4, 100)
    content[damaged] = b"\xff" * len(content[damaged])
    file.write_bytes(content)
    for command in (["report"], ["compare", str(run)], ["query", "select * from false_negative_curve"]):
        assert main([command[0], str(run), *command[1:]]) == 2
        assert str(table) in capsys.readouterr().err
    with pytest.raises(RunFolderError, match=str(table)):
        Result(run).table("false_negative_curve")
