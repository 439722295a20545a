"""The part of a network on each machine: its description, and the refusal where a machine has less."""

from __future__ import annotations

import io
import os
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from testbed.emulation.machines.cut import Machine, describe_part, offer, require_parts, slowest_part
from testbed.emulation.run.demand import Capacity, Estimate
from testbed.emulation.run.emulation import Emulation
from testbed.experiments.config.load import find_experiment, load_experiment
from testbed.experiments.workload import Workload
from testbed.support import run_state
from testbed.support.errors import MachineError
from testbed.terminal.progress import Progress

_WORK = Estimate(message_hops=10.0, ra_hops=2.0, opening_hops=100.0, opening_s=3.0, rate=8.0)
_ENOUGH = Capacity(processes=None, memory_bytes=16e9, descriptors=None, disk_bytes=1e12)
_A = Machine("a", "a", "10.99.0.1", b"", 16, "user", True, _ENOUGH, slow=1.0, chrony="")
_B = _A._replace(key="b", name="b", address="10.99.0.2", processors=1)
_PARTS = {_A: (0, 2, 3, 4), _B: (1,)}


def test_a_part_says_what_it_takes_beside_what_its_machine_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: {0, 1})
    experiment = load_experiment(find_experiment("ring5"), {"time_scale": "20"})
    rows = dict(describe_part(experiment, _WORK, _B, _PARTS[_B]))
    assert rows["machine"] == "b (10.99.0.2): 1 router, 3 links, 3 of them to other machines"
    # 3 halves of 6 links, on half the processors.
    assert rows["work"].startswith("2.5 messages and 0.5 RAs over links per ")
    assert rows["work"].endswith(" a time scale of about 16 at most; 1.5 s for the opening")
    assert rows["takes"].startswith("about 6 processes, 280 MB of memory, ")
    assert rows["has"] == "1 processor; free: 16 GB of memory, 1000 GB of disk"
    assert rows["warning"].startswith("time_scale 20 is more than the processors keep up with now")


def test_a_network_is_refused_by_the_machine_that_lacks_something(tmp_path: Path) -> None:
    experiment = load_experiment(find_experiment("ring5"))
    require_parts(experiment, _WORK, _PARTS, tmp_path)
    short = _B._replace(capacity=replace(_ENOUGH, processes=5, memory_bytes=2e8, descriptors=9))
    parts = {_A: _PARTS[_A], short: _PARTS[_B]}
    lines = r"^b \(10.99.0.2\): processes: takes 6, .*\nb \(10.99.0.2\): memory: takes 280 MB.*open files: "
    with pytest.raises(MachineError, match=rf"(?s){lines}"):
        require_parts(experiment, _WORK, parts, tmp_path)
    with pytest.raises(MachineError, match=r"^this machine: disk: takes "):
        require_parts(experiment, replace(_WORK, opening_hops=1e13), _PARTS, tmp_path)


def test_a_run_is_as_fast_as_its_slowest_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_state, "STATE_ROOT", tmp_path / "cbcb")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: {0, 1})
    experiment = load_experiment(find_experiment("ring5"), {"time_scale": "20"})
    work = Workload(), slowest_part(experiment.topology, _WORK, _PARTS)
    progress = Progress(Console(file=(file := io.StringIO()), width=400))
    Emulation(experiment, tmp_path, "user", progress, work=work)
    assert file.getvalue().endswith('expected at most 16, or "auto"\n')


@pytest.mark.root
def test_a_machine_says_what_chrony_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = "System time     : 0.000000006 seconds slow of NTP time"
    (tmp_path / "chronyc").write_text(f"#!/bin/sh\necho 'Stratum         : 3\n{line}'\n")
    for mode, said in (0o600, ""), (0o700, line):
        (tmp_path / "chronyc").chmod(mode)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        assert offer()[-1] == said
