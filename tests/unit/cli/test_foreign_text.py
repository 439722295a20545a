"""Text from files of others: a terminal gets it without control characters, and rich without markup."""

from __future__ import annotations

import ast
import io
import json
import os
import tarfile
from pathlib import Path

import pytest
from rich.console import Console

from captures.rundir import RunLayout
from captures.rundir.inputs import MANIFEST, Manifest
from testbed.cli.main import main
from testbed.results.trace import Receiver, Stop, Trace
from testbed.results.trace.show import lines
from testbed.terminal import put
from testbed.terminal.answers import answer
from testbed.terminal.progress import Progress
from testbed.terminal.summary import print_summary
from tests.support.paths import ROOT
from tests.support.questions import empty_tables

#: Sets the title of a terminal window; and a closing tag, on which rich raises MarkupError.
_TITLE, _TAG = "\x1b]0;own\x07", "[/bold]x"
_SHOWN = "\\x1b]0;own\\x07"


def _printed(capsys: pytest.CaptureFixture[str]) -> str:
    captured = capsys.readouterr()
    return captured.out + captured.err


def test_lines_are_kept_and_control_characters_are_not(capsys: pytest.CaptureFixture[str]) -> None:
    put(f"a\tb\n{_TITLE}é")
    assert _printed(capsys) == f"a\\tb\n{_SHOWN}é\n"


def test_the_error_of_an_experiment_file_has_no_control_characters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.toml"
    path.write_text('[topology]\ngenerator = "line"\nnodes = 3\n"bad\\u001b]0;own\\u0007" = 1\n')
    assert main(["check", str(path)]) == 2
    printed = _printed(capsys)
    assert "\x1b" not in printed
    assert f"bad{_SHOWN}" in printed


def test_the_name_of_a_member_of_an_archive_is_shown_without_control_characters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, run = tmp_path / "a.tar.gz", RunLayout(tmp_path / "run")
    run.path.mkdir()
    MANIFEST.write(run, Manifest(datapath="user", started_ns=1, evidence=[], inputs={}))
    with tarfile.open(path, "w:gz") as archive:
        for name in (_TAG, "manifest.json", _TITLE):
            member = tarfile.TarInfo(f"run/{name}")
            content = run.manifest.read_bytes()
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    status = main(["import", str(path), "--runs", str(tmp_path / "runs")])
    printed = _printed(capsys)
    assert (status, "\x1b]" in printed) == (2, False), printed


def test_runs_beside_each_other_show_any_value(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = []
    for name, value in (("a", f"{_TAG}{_TITLE}"), ("[/red]", "")):
        run = RunLayout(tmp_path / name)
        run.tables.mkdir(parents=True)
        MANIFEST.write(run, Manifest(datapath="user", started_ns=1, evidence=[], inputs={}))
        run.summary.write_text(json.dumps({"datapath": value}))
        runs.append(str(run.path))
    assert main(["compare", *runs, "-o", str(tmp_path / "curves.svg")]) == 0
    printed = _printed(capsys)
    assert f"{_TAG}{_SHOWN}" in printed
    assert "\x1b" not in printed


@pytest.mark.parametrize(
    ("form", "shown"), [("table", "\\e]0;own\\a"), ("csv", _SHOWN), ("json", "\\u001b]0;own\\u0007")]
)
def test_a_terminal_gets_no_control_characters_and_a_file_gets_the_values(
    tmp_path: Path, form: str, shown: str
) -> None:
    run = empty_tables(tmp_path / "run")
    sql = f"select 'v{_TITLE}' as \"c{_TITLE}\""
    answer(run, sql, "csv", tmp_path / "a.csv", 0)
    assert (tmp_path / "a.csv").read_bytes() == f"c{_TITLE}\nv{_TITLE}\n".encode()
    ours, theirs = os.openpty()
    with os.fdopen(theirs, "w") as terminal, pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout", terminal)
        answer(run, sql, form, None, 0)
        terminal.flush()
        printed = os.read(ours, 4096).decode()
    os.close(ours)
    assert printed.lower().count(f"v{shown}") == printed.lower().count(f"c{shown}") == 1
    assert printed.replace("\r\n", "").isprintable()


def test_progress_and_the_summary_show_any_text() -> None:
    file = io.StringIO()
    console = Console(file=file, width=200, no_color=True)
    progress = Progress(console)
    with progress.stage("x_s", f"stage {_TAG}{_TITLE}"):
        progress.note(f"note {_TAG}{_TITLE}")
    summary = {"verdict": "fails", "verdict_reasons": [f"reason {_TAG}{_TITLE}"]}
    print_summary(console, summary, Path(f"/x/{_TAG}{_TITLE}"))
    printed = file.getvalue()
    assert "\x1b" not in printed
    for text in ("stage ", "note ", "reason ", "/x/"):
        assert f"{text}{_TAG}{_SHOWN}" in printed


def test_the_lines_of_a_trace_have_no_control_characters() -> None:
    stop = Stop(0, None, 0, 0.0, receivers=[Receiver(f"app {_TITLE}", 0.1, 1, True, True)])
    trace = Trace(0, 1, 1, f"a = {_TITLE}", 0.5, 500_000_000, 1, True, [stop], {})
    printed = "\n".join(lines(trace))
    assert printed.replace("\n", "").isprintable()
    assert printed.count(_SHOWN) == 2


def test_the_testbed_prints_through_one_function() -> None:
    """No other calls `print`, and rich gets no text in which values are filled in."""
    found = []
    for path in sorted((ROOT / "testbed").rglob("*.py")):
        where = path.relative_to(ROOT).as_posix()
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            if isinstance(node.func, ast.Name) and node.func.id == "print":
                found.append(where)
            if isinstance(node.func, ast.Attribute) and node.func.attr in {"print", "status"}:
                found += [f"{where}:{node.lineno}" for each in node.args if isinstance(each, ast.JoinedStr)]
    assert found == ["testbed/terminal/__init__.py"]
