"""Benchmarks run at a small size and print what they have measured; a page quotes each."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from tests.bench.__main__ import BENCHMARKS
from tests.support.paths import DOCS, ROOT


@pytest.mark.parametrize(
    ("command", "row"),
    [
        ("columns --frames 800 --rounds 1", r"view traffic: 800 frames, [1-9]"),
        pytest.param(
            "forwarding --engines compiled --messages 500 --rounds 1",
            r"compiled +\d+\.\d+ ",
            marks=pytest.mark.root,
        ),
        pytest.param(
            "hop --frames 50 --deliver",
            r"50 frames \(MSG\), .* \d+\.\d us of CPU a hop",
            marks=pytest.mark.root,
        ),
        pytest.param(
            "bombs --sizes 2000 --shapes substrings",
            r"substrings +2,000( +\d+\.\d){6} +\d+ +\d+\.\d",
            marks=pytest.mark.root,
        ),
        (
            "matching --workloads P1+P8 --filters 500 --interfaces 0 --blocks 2 --engines brute+naive",
            r" +brute +0\.\d\d( +[\d.,]+){14}(.*\n)+ +naive +0\.\d\d( +[\d.,]+){2} +- +[1-9]",
        ),
        # The first messages are sent in second 30.
        ("simulate 10 --duration 35", r" +10 +[1-9]\d* "),
    ],
    ids=lambda text: text.partition(" ")[0],
)
def test_a_benchmark_runs_at_its_smallest_size(command: str, row: str) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-m", "tests.bench", *command.split()],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(f"^{row}", done.stdout, re.MULTILINE), done.stdout


def test_pages_and_benchmarks_name_each_other() -> None:
    pages = "\n".join(page.read_text(encoding="utf-8") for page in DOCS.rglob("*.md"))
    assert set(re.findall(r"(?:run\.sh bench|-m tests\.bench) ([a-z_]+)", pages)) == BENCHMARKS.keys()
