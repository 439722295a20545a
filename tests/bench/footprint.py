"""Processes, memory, descriptors and times of an emulation, by the number of its routers.

They are the constants of `testbed.emulation.run.demand`.

Networks without a workload are brought up, measured and taken down; a line through the sizes gives the base
and the share of each router. The default experiment gives the bytes on disk of a captured frame. Needs root.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from rich.console import Console

from captures.accounting.account import account_directly
from captures.rundir import RunLayout
from testbed.emulation.run.emulation import Emulation, emulate
from testbed.experiments.config.load import find_experiment, load_experiment
from testbed.machine.probes import datapath
from testbed.results.conclude import judge_run
from testbed.results.folders import new_run_folder
from testbed.results.inputs import write_inputs
from testbed.support.usage import proportional_bytes
from testbed.terminal.progress import Progress

_KEYS = ("processes", "memory_mb", "descriptors", "bring_up_s", "take_down_s")


def configure(arguments: list[str]) -> dict[str, Any]:
    """The keyword arguments of `main` that a command line asks for."""
    parser = argparse.ArgumentParser(prog="./run.sh bench footprint", description=__doc__)
    parser.add_argument(
        "--sizes",
        type=lambda text: [int(each) for each in text.split("+")],
        default=[25, 50, 100, 200],
        metavar="N+...",
        help="numbers of routers (25+50+100+200)",
    )
    parser.add_argument("--experiment", default="default", metavar="NAME", help="whose frames (default)")
    return vars(parser.parse_args(arguments))


def main(sizes: list[int], experiment: str) -> None:
    """Prints what each size takes, the line through the sizes, and bytes of the run folder a frame."""
    print(f"{'routers':>8} {'links':>6}" + "".join(f" {key:>12}" for key in _KEYS))
    rows = []
    for size in sizes:
        links, row = _quiet(size)
        rows.append(row)
        print(f"{size:8} {links:6}" + "".join(f" {value:12.1f}" for value in row), flush=True)
    if len(sizes) > 1:
        for name, column in zip(_KEYS, zip(*rows, strict=True), strict=True):
            share, base = np.polyfit(sizes, column, 1)
            print(f"{name}: {base:.1f} and {share:.3f} for each router")
    _of_a_frame(experiment)


def _quiet(size: int) -> tuple[int, list[float]]:
    """The links of a network, and what it takes while it is up and nothing is sent."""
    quiet = ("senders_percent", "receivers_percent")
    overrides = {f"workload.{key}": "0" for key in quiet}
    overrides |= {"topology.nodes": str(size), "duration_s": "1", "workload.first_message_s": "0"}
    experiment = load_experiment(find_experiment("default"), overrides)
    with tempfile.TemporaryDirectory() as folder:
        run = new_run_folder(Path(folder), "footprint").resolve()
        emulation = Emulation(experiment, run, datapath(), Progress(Console(quiet=True)))
        try:
            write_inputs(run, experiment, emulation.workload, datapath(), tag=emulation.state.tag)
            began = time.monotonic()
            emulation.bring_up()
            up_s = time.monotonic() - began
            pids = {process.pid for process in psutil.Process().children(recursive=True)}
            pids |= {process.pid for process in emulation.state.processes if process.alive()}
            memory = proportional_bytes(pids)
            descriptors = max(_descriptors(pid) for pid in (os.getpid(), *pids))
            began = time.monotonic()
        finally:
            emulation.abandon()
        down_s = time.monotonic() - began
    return len(experiment.topology.links), [len(pids), memory / 1e6, descriptors, up_s, down_s]


def _descriptors(pid: int) -> int:
    try:
        return len(list(Path(f"/proc/{pid}/fd").iterdir()))
    except OSError:  # it has ended
        return 0


def _of_a_frame(name: str) -> None:
    """Prints the bytes of the run folder of a shipped experiment for each captured frame."""
    experiment = load_experiment(find_experiment(name))
    with tempfile.TemporaryDirectory() as folder:
        run = emulate(experiment, Path(folder), datapath(), Progress(Console(quiet=True)))
        size = sum(path.stat().st_size for path in run.rglob("*") if path.is_file())
        layout = RunLayout(run)
        judge_run(layout, experiment)
        summary: dict[str, Any] = {}
        account_directly(run, summary.update)
        frames = summary["frames_captured"]
        tables = sum(path.stat().st_size for path in run.rglob("*") if path.is_file()) - size
        print(json.dumps({"frames": frames, "run_bytes": size, "table_bytes": tables}))
        print(f"{size / frames:.0f} bytes a frame in captures and logs, {tables / frames:.0f} in tables")
