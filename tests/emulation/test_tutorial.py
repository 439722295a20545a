"""Steps 2 to 4 of docs/tutorial/tutorial.md: the experiment, the questions and the session at the prompt."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.command import Cbcb, Held, output_of
from tests.support.paths import DOCS

pytestmark = pytest.mark.emulation

_PROMPT = "cbcb> "


def _between(begin: str, end: str) -> str:
    """The text of the tutorial between two strings."""
    return (DOCS / "tutorial/tutorial.md").read_text().partition(begin)[2].partition(end)[0]


def _command(step: int, name: str) -> str:
    """The first line of a step that begins with a command."""
    lines = _between(f"## {step}.", f"## {step + 1}.").splitlines()
    return next(line for line in lines if line.startswith(f"./run.sh {name}"))


def test_the_tutorial_s_run_and_session(cbcb: Callable[..., Cbcb], tmp_path: Path) -> None:
    experiment = tmp_path / "first.toml"
    experiment.write_text(_between("cat > first.toml <<'EOF'\n", "EOF\n"))
    assert output_of("check", str(experiment)).startswith("first: valid\n")
    printed = cbcb("run", str(experiment), "--engine", "duckdb").ends()
    assert "Verdict: holds" in printed
    (first,) = (path.parent for path in tmp_path.glob("*/summary.json"))
    answer = output_of("query", str(first), _command(3, "query").split('"')[1], "--format", "csv")
    assert len(answer.splitlines()) == 1 + 2
    assert "1 delivered, 1 expected" in output_of("trace", str(first), "0:2")

    options = _command(4, "run").removeprefix("./run.sh run first.toml ").split()
    run = Held(cbcb("run", str(experiment), *options, "--engine", "duckdb"))
    run.wait()
    expected = [f"{_PROMPT}nodes", *_between(f"```\n{_PROMPT}nodes\n", "```").splitlines()]
    lines = [line.removeprefix(_PROMPT) for line in expected if line.startswith(_PROMPT)]
    session = output_of("cli", "--run", run.tag, stdin="\n".join([*lines, ""]))
    assert session.splitlines() == expected

    summary = run.end()
    keys = ("messages_sent", "deliveries_made", "deliveries_expected")
    assert [summary[key] for key in keys] == [2, 2, 2]
    # The other way round the ring.
    assert "r4" in output_of("trace", str(run.folder.path), "0:2")
