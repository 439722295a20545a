"""Runs beside each other."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from captures.rundir import RunLayout
from captures.rundir.inputs import MANIFEST, Manifest, Source
from testbed.experiments.config.load import find_experiment, load_experiment
from testbed.experiments.config.schema import dump_experiment
from testbed.results.report.comparison import compare, differing_settings, draw_curves, names_of
from topos.loaders import to_json


def _run(folder: Path, share: float, **keys: object) -> Path:
    run = RunLayout(folder)
    (run.tables / "false_positive_curve").mkdir(parents=True)
    MANIFEST.write(run, Manifest(datapath="user", started_ns=1, evidence=[], inputs={}))
    experiment = load_experiment(find_experiment("ring5"), {"time_scale": str(1 + 8 * share)})
    run.experiment.write_text(dump_experiment(experiment, run.topology.name))
    run.topology.write_text(to_json(experiment.topology))
    run.summary.write_text(json.dumps({"routers": 5, "stretch": {"mean": share}, **keys}))
    curve = pa.table({"t_s": [4.0, 2.0], "fraction": [share, 0.0]})
    pq.write_table(curve, run.tables / "false_positive_curve" / "part.parquet")
    return folder


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    return [_run(tmp_path / "a", 0.25, verdict="holds"), _run(tmp_path / "b", 0.5, contradictions=["a", "b"])]


def test_keys_stand_side_by_side(runs: list[Path]) -> None:
    assert [(row.key, row.values, row.differs) for row in compare(runs)] == [
        ("routers", (5, 5), False),
        ("stretch.mean", (0.25, 0.5), True),
        ("verdict", ("holds", None), True),
        ("contradictions.count", (None, 2), True),
    ]


def test_settings_that_differ_are_those_of_links_and_events_too(runs: list[Path]) -> None:
    link = RunLayout(runs[1]).topology
    link.write_text(link.read_text().replace('"cost": 1', '"cost": 7', 1))
    with RunLayout(runs[1]).experiment.open("a") as file:
        file.write('\n[[events]]\naction = "link_down"\nat_s = 3\nlink = [0, 1]\n')
    found = {row.key: row.values for row in differing_settings(runs)}
    assert found["topology.links"] == ("6", "1 of 6 differ")
    assert found["events"] == ("2", "1 of 3 differ")


def test_folders_of_one_name_are_distinguished_by_their_paths(tmp_path: Path) -> None:
    one, other = tmp_path / "x" / "run", tmp_path / "y" / "run"
    assert names_of([one, other, tmp_path / "z"]) == [str(one), str(other), "z"]


def test_keys_stay_whole_and_names_are_broken_in_a_narrow_terminal(
    tmp_path: Path, printed: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    keys = {f"message_crossings.in_all_{name}": name for name in ("broadcast", "unicast")}
    runs = [
        _run(tmp_path / f"20261122-10150{number}-the-name-of-an-experiment", number, **keys)
        for number in range(4)
    ]
    shown = printed("compare", "--all", *runs, "-o", tmp_path / "curves.svg")
    assert "…" not in shown
    assert {line.split()[0] for line in shown.splitlines() if "message_crossings" in line} == keys.keys()


def test_the_command_shows_what_differs_and_draws_the_curves(
    runs: list[Path], printed: Callable[..., str]
) -> None:
    out = runs[0].parent / "curves.svg"
    lines = [line.split() for line in printed("compare", *runs, "-o", out).splitlines()]
    assert lines[0] == ["key", "a", "b"]
    assert lines[1:3] == [["time_scale", "3", "5"], []]
    assert lines[3:6] == [
        ["stretch.mean", "0.25", "0.5"],
        ["verdict", "holds", "–"],
        ["contradictions.count", "–", "2"],
    ]
    assert lines[6][:2] == ["1", "keys"]
    drawn = out.read_text()
    assert all(text in drawn for text in ("false positives", 'id="legend_1"', ">a<", ">b<"))


def test_runs_without_curves_give_no_figure(tmp_path: Path) -> None:
    (tmp_path / "c").mkdir()
    assert draw_curves({"c": tmp_path / "c"}, tmp_path / "curves.svg") is False
    assert not (tmp_path / "curves.svg").exists()


def test_runs_of_different_code_are_compared_on_request_alone(
    tmp_path: Path, printed: Callable[..., str], refused: Callable[..., str]
) -> None:
    states = (("a", "1" * 40, False), ("a", "2" * 40, True), ("b", "2" * 40, True))
    sources = [Source(version="1", commit=commit, dirty=dirty, code=code) for code, commit, dirty in states]
    runs = [_run(tmp_path / str(number), 0.5) for number in range(len(sources))]
    for run, source in zip(map(RunLayout, runs), sources, strict=True):
        MANIFEST.write(run, {**MANIFEST.read(run), "testbed": source})
    out = ["-o", tmp_path / "curves.svg"]
    # Commits of equal sources are one code.
    printed("compare", *runs[:2], *out)
    made = "22222222 with changes (code a), 22222222 with changes (code b)"
    why = f"different code made the runs ({made}); --other-code keep"
    assert refused("compare", *runs[1:], *out).startswith(f"cbcb: {why}")
    printed("compare", *runs, *out, "--other-code", "keep")
