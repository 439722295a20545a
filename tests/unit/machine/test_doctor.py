"""`cbcb doctor` on a machine without Numba."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.support.command import CBCB
from tests.support.without_numba import REASON, python_path


def test_without_numba_doctor_names_the_slow_engine_and_the_slow_path(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": python_path(tmp_path / "without"), "COLUMNS": "300"}
    done = subprocess.run([*CBCB, "doctor"], env=environment, capture_output=True, text=True, check=False)
    lines = [line.split() for line in done.stdout.splitlines()]
    for feature, detail in (
        ("matching engine", "counting, for compiled cannot serve"),
        ("data plane", "the protocol core forwards every message"),
    ):
        found = f"not here {feature} {detail}: {REASON}".split()
        assert found in lines, done.stdout + done.stderr
        # The remedy of what a run does without.
        assert lines[lines.index(found) + 1][:2] == ["to", "mend:"]
