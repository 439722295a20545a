"""Fuzzing that goes on: each target in turn, guided by coverage with atheris, else at random.

`./run.sh bench fuzz --seconds 3600` shares the seconds among the targets of tests/fuzz/targets.py; slow ones
get more. Each input has a bound on its CPU time and its memory (tests/fuzz/bounds.py). An input that fails,
or breaks a bound, is written to `build/fuzz`; the exit status is then 1. `--keep` adds short inputs, each of
which covered something new, to the corpus in tests/fuzz/corpus, which an ordinary test replays.

Atheris is an extra: `.venv/bin/pip install 'atheris==3.0.0'`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

from tests.fuzz import corpus
from tests.fuzz.targets import TARGETS

_FAILED = Path("build/fuzz")
#: Inputs that a run adds to those that are kept for a target, and their bytes in all.
_KEPT, _KEPT_BYTES = 80, 6_000


def main(
    targets: Sequence[str] = tuple(TARGETS), seconds: int = 60 * len(TARGETS), keep: bool = False
) -> None:
    unit = seconds / sum(TARGETS[target].share for target in targets)
    failed = []
    print(f"{'target':12} {'engine':8} {'tried':>12} {'a second':>9} {'corpus':>7} {'coverage':>9}  result")
    for target in targets:
        with tempfile.TemporaryDirectory() as folder:
            begun = time.monotonic()
            share = max(1, round(unit * TARGETS[target].share))
            status, figures = _fuzzed(target, share, Path(folder))
            runs = figures.get("runs", 0)
            rate = runs / max(time.monotonic() - begun, 1e-9)
            result = "nothing found" if status == 0 else f"FAILED: {_saved(target, Path(folder))}"
            engine, inputs = figures.get("engine", "?"), figures.get("inputs", 0)
            shown = f"{target:12} {engine:8} {runs:12,} {rate:9,.0f} {inputs:7,}"
            print(f"{shown} {figures.get('coverage', '-'):>9}  {result}", flush=True)
            if status:
                failed.append(target)
            if keep and figures.get("engine") == "atheris":
                _renew(target, Path(folder))
    if failed:
        sys.exit(1)


def _fuzzed(target: str, seconds: int, folder: Path) -> tuple[int, dict[str, Any]]:
    command = [sys.executable, "-m", "tests.fuzz.run", target, str(seconds), str(folder)]
    # Set iteration must not differ between the process that finds an input and that which replays it.
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    lines = done.stdout.splitlines()
    return done.returncode, json.loads(lines[-1]) if lines else {}


def _saved(target: str, folder: Path) -> str:
    """Keeps what failed; returns where."""
    _FAILED.mkdir(parents=True, exist_ok=True)
    names = []
    for path in (*folder.glob("failed-*"), folder / "log"):
        if path.exists():
            names.append(str(_FAILED / f"{target}-{path.name}"))
            shutil.copy(path, names[-1])
    return ", ".join(names) or "without an input"


def _renew(target: str, folder: Path) -> None:
    """Keeps the shortest inputs that covered something new beside those that are kept."""
    before = corpus.kept(target)
    found = sorted({path.read_bytes() for path in (folder / "corpus").iterdir()} - set(before), key=len)
    sizes = list(accumulate(len(each) for each in found))
    corpus.keep(target, [*before, *found[: min(_KEPT, bisect_right(sizes, _KEPT_BYTES))]])
