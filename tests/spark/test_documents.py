"""Lines of documents on Spark do what the documents say: open-a-run.md, and the example of pcap-source.md."""

from __future__ import annotations

import io
import re
import subprocess
from contextlib import redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from captures.accounting import account as job
from captures.datasource.formats import register
from captures.tables import TABLES, store
from tests.support.paths import DOCS, ROOT
from tests.support.run_folder import good_run
from tests.support.wire_tshark import needs_tshark

pytestmark = pytest.mark.spark

_LINES = re.findall(
    r"```python\n(.*?)```", (ROOT / "docs" / "how-to" / "open-a-run.md").read_text(), re.DOTALL
)


@pytest.fixture(scope="module", params=["large", "duckdb"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose tables Spark has written, or this process, which writes those of a small run on Spark."""
    folder = good_run().write(tmp_path_factory.mktemp("runs") / "run")
    if request.param == "duckdb":
        job.account_directly(folder, lambda _: None)
        return folder
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job, "SMALL_BYTES", 0)
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


_BLOCK = re.compile(r"^```(python|sh|text)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@needs_tshark
def test_the_commands_print_what_the_document_says(tmp_path: Path, spark: SparkSession) -> None:
    register(spark)
    page = (DOCS / "reference/pcap-source.md").read_text()
    section = page.split("\n## Worked example\n")[1].split("\n## ")[0]
    names: dict[str, Any] = {"spark": spark}
    printed = ""
    languages = []
    for language, text in _BLOCK.findall(section.replace("/data/example", str(tmp_path / "example"))):
        languages.append(language)
        if language == "python":
            with redirect_stdout(io.StringIO()) as output:
                exec(compile(text, "docs/reference/pcap-source.md", "exec"), names)
            printed = output.getvalue()
        elif language == "sh":
            command = ["bash", "-c", text]
            printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        else:
            assert printed == text
    assert languages == ["python", "python", "text", "python", "sh", "text"]
