"""Steps 2 to 4 of docs/tutorial/tutorial.md: the experiment, the questions and the session at the prompt."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from captures.rundir.layout import RunLayout
from tests.support.command import CBCB, STATE, Cbcb
from tests.support.paths import DOCS, ROOT
from tests.support.polling import poll

pytestmark = pytest.mark.emulation

_PROMPT = "cbcb> "


def _between(begin: str, end: str) -> str:
    """The text of the tutorial between two strings."""
    return (DOCS / "tutorial/tutorial.md").read_text().partition(begin)[2].partition(end)[0]


def _command(step: int, name: str) -> str:
    """The first line of a step that begins with a command."""
    lines = _between(f"## {step}.", f"## {step + 1}.").splitlines()
    return next(line for line in lines if line.startswith(f"./run.sh {name}"))


def _cbcb(*arguments: str, stdin: str = "") -> str:
    done = subprocess.run(
        [*CBCB, *arguments], cwd=ROOT, input=stdin, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_tutorial_s_run_and_session(cbcb: Callable[..., Cbcb], tmp_path: Path) -> None:
    experiment = tmp_path / "first.toml"
    experiment.write_text(_between("cat > first.toml <<'EOF'\n", "EOF\n"))
    assert _cbcb("check", str(experiment)).startswith("first: valid\n")
    status, printed = cbcb("run", str(experiment), "--engine", "duckdb").wait()
    assert status == 0, printed
    assert "Verdict: holds" in printed
    (first,) = (path.parent for path in tmp_path.glob("*/summary.json"))
    answer = _cbcb("query", str(first), _command(3, "query").split('"')[1], "--format", "csv")
    assert len(answer.splitlines()) == 1 + 2
    assert "1 delivered, 1 expected" in _cbcb("trace", str(first), "0:2")

    options = _command(4, "run").removeprefix("./run.sh run first.toml ").split()
    run = cbcb("run", str(experiment), *options, "--engine", "duckdb")
    state = run.state()
    control = STATE / state["tag"] / "control.sock"
    poll(lambda: control.exists() or None, 300, "the run takes commands")
    expected = [f"{_PROMPT}nodes", *_between(f"```\n{_PROMPT}nodes\n", "```").splitlines()]
    lines = [line.removeprefix(_PROMPT) for line in expected if line.startswith(_PROMPT)]
    session = _cbcb("cli", "--run", state["tag"], stdin="\n".join([*lines, ""]))
    assert session.splitlines() == expected

    run.interrupt()
    status, printed = run.wait()
    assert status == 0, printed
    summary = json.loads(RunLayout(Path(state["run_dir"])).summary.read_text())
    keys = ("verdict", "messages_sent", "deliveries_made", "deliveries_expected")
    assert [summary[key] for key in keys] == ["holds", 2, 2, 2]
    # The other way round the ring.
    assert "r4" in _cbcb("trace", state["run_dir"], "0:2")
