"""A figure whose runs fail.

As the other sweeps, after all tests that share a session: a sweep ends the session of its process.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.cli.main import main
from testbed.evaluation.figures.reproduction import (
    FIGURES,
    Case,
    Panel,
    Reproduction,
    Results,
    Statement,
    common,
)

pytestmark = pytest.mark.spark


class Broken(Reproduction):
    """In one case routers keep RAs back, so that deliveries are missed, which the figure does not expect."""

    title = "Broken"
    paper = ("Nothing is missed.",)
    measure = "testbed.evaluation.figures.measures:false_negatives"

    def cases(self, size: str) -> list[Case]:
        keys = {
            "duration_s": 300 if size == "small" else 600,
            "time_scale": 10,
            "topology__nodes": 8,
            "workload__changing_receivers_percent": 100,
            "workload__predicate_change_interval_s": 60,
            "workload__messages_per_minute": 12,
        }
        return [
            Case("at once", common(**keys)),
            Case("kept back", common(**keys, protocol__ra_min_interval_s=200)),
        ]

    def judge(self, results: Results) -> list[Statement]:
        return [Statement(f"{case.label}: runs", "2", f"{len(results.runs(case))}", None) for case in results]

    def panels(self, results: Results) -> list[Panel]:
        return [Panel("t", "y", {case.label: results.curves(case) for case in results})]


def test_runs_that_fail_are_on_the_page_and_in_the_status(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    FIGURES.register("broken", Broken, "A figure of which half the runs fail.")
    try:
        line = ["figure", "broken", "--size", "small", "--seeds", "2", "--runs", str(tmp_path / "runs")]
        assert main([*line, "-o", str(tmp_path)]) == 1
    finally:
        FIGURES.unregister("broken")
    page = (tmp_path / "broken-small.md").read_text()
    assert "| runs | at once | 2 | 2 | shown |\n| runs | kept back | 2 | 0 | shown |\n" in page
    assert "\n- kept back: 0 of 2 runs\n" in page
    assert "at once: 2 of 2" not in page
    listed = page.split("Runs that failed, and are in no number of this page:\n\n")[1].splitlines()[:2]
    assert [line.partition("RunError: ")[0] for line in listed] == [
        "- kept back, seed 1: ",
        "- kept back, seed 2: ",
    ]
    assert all("verdict fails: " in line for line in listed)
    assert "failed kept back, seed 1: RunError: verdict fails: " in " ".join(capsys.readouterr().out.split())
