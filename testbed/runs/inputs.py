"""Writes the inputs of a run into its folder: experiment, topology, workload and manifest."""

from __future__ import annotations

import os
import platform
import sys
import time
from pathlib import Path

from captures.rundir.layout import RunLayout
from captures.rundir.manifest import Manifest, write_manifest
from captures.rundir.topology import write_topology
from router.privacy.keys import write_keys
from testbed.config.dump import dump_experiment
from testbed.config.model import Experiment
from testbed.machine.versions import source_version, versions
from testbed.workload.members import key_ring
from testbed.workload.model import Workload, write_workload
from testbed.workload.network_keys import network_keys, write_signing_keys


def write_inputs(
    run_dir: Path,
    experiment: Experiment,
    workload: Workload,
    datapath: str,
    *,
    tag: str | None = None,
    held: bool = False,
    virtual_start_ns: int | None = None,
) -> None:
    """Writes the inputs of a run.

    Args:
        datapath: datapath of the switches; `captures.rundir.manifest.SIMULATED` for a simulation.
        tag: the tag of an emulation.
        held: whether the network of an emulation is held until its user ends the run.
        virtual_start_ns: wall clock at which the virtual time of a simulation starts.

    Raises:
        OSError: a file cannot be written.
    """
    run = RunLayout(run_dir)
    run.experiment.write_text(dump_experiment(experiment, run.topology.name), encoding="utf-8")
    write_topology(run, experiment.topology)
    write_workload(run, workload)
    if experiment.privacy.on:
        write_keys(run.keys, key_ring(experiment))
    if experiment.security.on:
        write_keys(run.network_keys, network_keys(experiment))
    if experiment.security.signs:
        write_signing_keys(experiment, run.signing_keys)
    now_ns = time.time_ns()
    manifest = Manifest(
        experiment=experiment.name,
        seed=experiment.seed,
        datapath=datapath,
        started_ns=now_ns if virtual_start_ns is None else virtual_start_ns,
        command=sys.argv,
        kernel=platform.release(),
        system=_system(),
        cpus=os.cpu_count(),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        testbed=source_version(),
        versions={"python": platform.python_version(), **versions()},
        senders=list(workload.senders),
        receivers=list(workload.receivers),
    )
    if virtual_start_ns is not None:
        manifest["simulated_ns"] = now_ns
    if tag is not None:
        manifest["tag"] = tag
        manifest["held"] = held
    write_manifest(run, manifest)


def _system() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.system()
