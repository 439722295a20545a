"""Emulations of a sweep on a machine that lacks a feature of the kernel."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from testbed.evaluation.sweeps.job import Row
from testbed.evaluation.sweeps.runner import run_jobs
from testbed.evaluation.sweeps.spec import Job
from testbed.experiments.config.load import find_experiment, load_experiment
from testbed.machine import checks
from testbed.machine.probes import KernelFeatures
from testbed.support.errors import MachineError
from testbed.terminal.progress import Progress


def test_link_properties_that_the_kernel_lacks_end_a_sweep_before_its_first_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "check_machine", list)
    monkeypatch.setattr(checks, "kernel_features", lambda: KernelFeatures(False, False, False))
    experiments = [
        load_experiment(find_experiment("ring5"), overrides)
        for overrides in ({}, {"links.delay_ms": "2"}, {"links.delay_ms": "3"})
    ]
    jobs = [
        Job(number, str(number), {}, 1, "run", experiment) for number, experiment in enumerate(experiments)
    ]
    rows: list[Row] = []
    with pytest.raises(MachineError, match=r"link \d+-\d+ asks for delay_ms = 2, .*and 11 more"):
        run_jobs(
            jobs,
            tmp_path,
            rows.append,
            master="local[1]",
            progress=Progress(Console(file=io.StringIO())),
            datapath="user",
        )
    assert not rows
    assert not list(tmp_path.iterdir())
