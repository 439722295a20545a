"""The lines of docs/how-to/open-a-run.md open every table of a run, as they stand there."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from captures.accounting import account as job
from captures.tables import TABLES, store
from tests.support.paths import ROOT
from tests.support.run_folder import good_run

pytestmark = pytest.mark.spark

_LINES = re.findall(
    r"```python\n(.*?)```", (ROOT / "docs" / "how-to" / "open-a-run.md").read_text(), re.DOTALL
)


@pytest.fixture(scope="module", params=["small", "large", "duckdb"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = good_run().write(tmp_path_factory.mktemp("runs") / "run")
    if request.param == "duckdb":
        job.account_directly(folder, lambda _: None)
        return folder
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "large":
            patch.setattr(job, "_SMALL_BYTES", 0)
        job.account(folder, spark=request.getfixturevalue("spark"))
    return folder


def _shape(table: Any) -> tuple[list[str], int]:
    """The columns and the number of the rows of a table, as its library gives them."""
    return sorted(table.columns), len(table) if hasattr(table, "__len__") else table.count()


@pytest.mark.parametrize("lines", _LINES, ids=[lines.split()[1] for lines in _LINES])
def test_the_lines_open_every_table(
    run: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, lines: str
) -> None:
    library = lines.split()[1].split(".")[0]
    if find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    if library == "pyspark":
        request.getfixturevalue("spark")  # the session that the lines get
        # The JVM keeps the working folder in which it was started.
        lines = lines.replace("parquet/", f"{run}/parquet/")
    assert len(lines.splitlines()) == 3 and "\n\n" in lines  # an import, and the table
    monkeypatch.chdir(run)
    opened = 0
    for name in TABLES:
        if store.is_empty(run, name):
            continue
        known: dict[str, Any] = {}
        exec(lines.replace("deliveries", name), known)
        columns, rows = _shape(known[name])
        expected = pq.read_table(store.folder(run, name))
        assert (columns, rows) == (sorted(expected.column_names), expected.num_rows), name
        opened += rows > 0
    assert opened > 20


def test_the_page_has_the_four_libraries() -> None:
    assert [lines.split()[1].split(".")[0] for lines in _LINES] == ["pandas", "polars", "duckdb", "pyspark"]
