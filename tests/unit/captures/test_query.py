"""Queries of DuckDB take a share of the memory, leave nothing behind, and end with Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import duckdb
import psutil
import pytest

from captures.accounting.account import TooLargeError, account_directly
from captures.accounting.direct import Direct
from captures.rundir import RunLayout
from captures.rundir.files import RunFolderError
from captures.rundir.summary import SUMMARY
from captures.tables import query, store
from testbed.api import Result
from testbed.cli.main import main
from testbed.results.trace import listed
from tests.support.command import CBCB
from tests.support.polling import poll
from tests.support.questions import ask
from tests.support.run_folder import good_run

_LONG = "select sum(a.range * b.range % 7) from range(100000000) a, range(100000) b"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = good_run().write(tmp_path / "run")
    account_directly(folder, partial(SUMMARY.write, RunLayout(folder)))
    return folder


def _settings(run: Path) -> dict[str, str]:
    sql = "select name, value from duckdb_settings() where name in ('memory_limit', 'temp_directory')"
    return {row["name"]: row["value"] for row in ask(run, sql)}


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


def test_a_query_takes_at_most_half_of_the_memory(run: Path) -> None:
    number, unit = _settings(run)["memory_limit"].split()
    limit = float(number) * 1024 ** {"MiB": 2, "GiB": 3}[unit]
    assert limit < 0.6 * psutil.virtual_memory().total


def test_an_accounting_spills_into_a_temporary_folder_that_goes(run: Path) -> None:
    with Direct(run) as direct:
        (row,) = direct.sql("select current_setting('temp_directory') as path").to_pylist()
        assert Path(row["path"]).is_dir()
        assert direct.table("predicates").num_rows
    assert not Path(row["path"]).exists()


def test_queries_of_an_accounting_find_tables_and_columns_however_they_are_written(run: Path) -> None:
    with Direct(run) as direct, Direct(run, whole=True) as whole:
        expected = Counter(whole.sql("select predicate from frames")["predicate"].to_pylist())
        assert set(expected) > {None}
        for sql in (
            *("select f.* from frames f", "from frames", "SELECT issuer, * FROM FRAMES"),
            *("select PREDICATE from Frames", "select * from links l, frames f where l.link = 0"),
        ):
            found = direct.sql(sql)
            assert Counter(found["predicate"].to_pylist()) == expected, sql
        assert direct.table("advertised") == whole.table("advertised")
        with pytest.raises(duckdb.Error, match="ethertype"):
            direct.sql("select ethertype from frames")
        with pytest.raises(duckdb.Error, match="nowhere"):
            direct.sql("select * from nowhere")


def test_an_accounting_that_lacks_memory_names_spark(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query, "_MEMORY", "1MB")
    with pytest.raises(TooLargeError, match=r"run: Out of Memory Error: .*; account on Spark$"):
        account_directly(run, lambda _: None)


def test_ctrl_c_before_a_query_has_begun_ends_it(run: Path) -> None:
    begun, ends = threading.Event(), list[str]()

    def work() -> None:
        main = threading.main_thread().ident or 0

        def waits() -> bool:
            stack = traceback.walk_stack(sys._current_frames()[main])
            return any(frame.f_code is Future.result.__code__ for frame, _ in stack)

        poll(lambda: waits() or None, 60, "the test waits for the work")
        signal.pthread_kill(main, signal.SIGINT)
        assert begun.wait(60)
        with pytest.raises(duckdb.InterruptException):
            database.execute(_LONG).fetchall()
        ends.append("interrupted")

    def interrupt() -> None:
        database.interrupt()
        begun.set()

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with query.connect(run) as database, pytest.raises(KeyboardInterrupt):
            query.interruptible(cast(query.Database, SimpleNamespace(interrupt=interrupt)), work)
    finally:
        signal.signal(signal.SIGINT, before)
    assert ends == ["interrupted"]


@pytest.mark.parametrize(
    ("work", "asks"),
    [
        pytest.param(lambda run: main(["trace", str(run)]), listed, id="trace"),
        pytest.param(lambda run: account_directly(run, lambda _: None), store.write_arrow, id="accounting"),
    ],
)
def test_ctrl_c_ends_what_asks_in_another_thread(
    run: Path, work: Callable[[Path], object], asks: Callable[..., object]
) -> None:
    asked = set()
    threading.setprofile(lambda frame, *_: asked.add(frame.f_code))
    try:
        work(run)
    finally:
        threading.setprofile(None)
    assert asks.__code__ in asked


def test_ctrl_c_ends_a_query(run: Path) -> None:
    command = ["env", "--default-signal=INT", *CBCB, "query", str(run), _LONG]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as asking:
        try:
            process = psutil.Process(asking.pid)

            def runs() -> bool | None:
                """Whether threads of the query work, beside that which waits for them."""
                return (
                    any(each.id != asking.pid and each.user_time > 0.5 for each in process.threads()) or None
                )

            poll(runs, 120, "the query runs")
            os.kill(asking.pid, signal.SIGINT)
            output, errors = asking.communicate(timeout=60)
        finally:
            asking.kill()
    assert (asking.returncode, output, errors) == (130, "", "cbcb: interrupted\n")


@pytest.mark.attack("hostile run folder")
@pytest.mark.parametrize("place", ["tail", "pages"])
def test_a_damaged_table_is_an_error_that_names_it(
    run: Path, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: Callable[..., str]
) -> None:
    monkeypatch.chdir(tmp_path)
    table = RunLayout(run).tables / "false_negative_curve"
    (file,) = table.glob("*.parquet")
    content = bytearray(file.read_bytes())
    damaged = slice(-4, None) if place == "tail" else slice(4, 100)
    content[damaged] = b"\xff" * len(content[damaged])
    file.write_bytes(content)
    for name, *more in (["report"], ["compare", run], ["query", "select * from false_negative_curve"]):
        assert str(table) in refused(name, run, *more)
    with pytest.raises(RunFolderError, match=str(table)):
        Result(run).table("false_negative_curve")
