"""Writes the inputs of a run into its folder: experiment, topology, workload and manifest."""

from __future__ import annotations

import hashlib
import os
import platform
import secrets
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from captures.rundir import RunLayout
from captures.rundir.capture_list import Kept, identities
from captures.rundir.inputs import MANIFEST, SIMULATED, WORKLOAD, Manifest, write_topology
from router.privacy import write_keys
from router.protocol.options import SCHEMES, SERVICES
from testbed.experiments.config import Experiment
from testbed.experiments.config.schema import dump_experiment
from testbed.experiments.workload import Workload
from testbed.experiments.workload.keys import key_ring, network_keys, write_signing_keys
from testbed.machine.versions import source_version, versions


def write_inputs(
    run_dir: Path,
    experiment: Experiment,
    workload: Workload,
    datapath: str,
    *,
    tag: str | None = None,
    held: bool = False,
    virtual_start_ns: int | None = None,
    kept: Kept = "all",
    service_records: bool = True,
) -> None:
    """Writes the inputs of a run, and the empty logs of an emulation that only some events fill.

    Args:
        datapath: datapath of the switches; `captures.rundir.inputs.SIMULATED` for a simulation.
        held: whether the network of an emulation is held until its user ends the run.
        virtual_start_ns: wall clock at which the virtual time of a simulation starts.
        service_records: whether the records of a service that keeps some go to a file.

    Raises:
        OSError: a file cannot be written.
    """
    run, identity = RunLayout(run_dir), secrets.token_hex(16)
    run.experiment.write_text(dump_experiment(experiment, run.topology.name), encoding="utf-8")
    write_topology(run, experiment.topology)
    WORKLOAD.write(run, (item.line for item in workload.items))
    if experiment.privacy.on:
        write_keys(run.keys, key_ring(experiment))
    if experiment.security.on:
        write_keys(run.network_keys, network_keys(experiment, identity))
    if experiment.security.signs:
        write_signing_keys(experiment, identity, run.signing_keys)
    if datapath != SIMULATED:
        for log in (run.commands, run.faults):
            log.touch()
    now_ns = time.time_ns()
    manifest = Manifest(
        experiment=experiment.name,
        seed=experiment.seed,
        private=experiment.privacy.on,
        datapath=datapath,
        started_ns=now_ns if virtual_start_ns is None else virtual_start_ns,
        inputs={
            run.relative(path): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in (run.experiment, run.topology, run.workload)
        },
        evidence=[
            run.relative(path)
            for path in _evidence(run, experiment, datapath == SIMULATED, kept, service_records)
        ],
        command=sys.argv,
        machine=platform.node(),
        kernel=platform.release(),
        system=_system(),
        cpus=os.cpu_count(),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        testbed=source_version(),
        versions={"python": platform.python_version(), **versions()},
        message_frames=SCHEMES[experiment.routing.scheme].message_frames,
        senders=list(workload.senders),
        receivers=list(workload.receivers),
    )
    if experiment.security.key_file or experiment.security.signing_keys:
        manifest["identity"] = identity
    if virtual_start_ns is not None:
        manifest["simulated_ns"] = now_ns
    if tag is not None:
        manifest["tag"] = tag
        manifest["held"] = held
    MANIFEST.write(run, manifest)


def _system() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.system()


def _evidence(
    run: RunLayout, experiment: Experiment, simulated: bool, kept: Kept, service_records: bool
) -> Iterator[Path]:
    """The files that a run leaves, whatever happens in it: see `Manifest.evidence`."""
    yield from (run.experiment, run.topology, run.workload, run.clock, run.controller_log, run.routing_tables)
    yield from (run.routers_counters, run.switches_counters, run.timings, run.captures)
    yield from (run.capture(each.name) for each in identities(experiment.topology, kept))
    keeps_records = service_records and SERVICES[experiment.service.kind].keeps_records
    if simulated:
        yield from (run.simulation, run.simulated_applications)
        if keeps_records:
            yield run.simulated_service_records
        return
    yield from (run.commands, run.faults, run.lag, run.switch_drops)
    if experiment.privacy.on:
        yield run.private_applications
    if experiment.network.ip:
        yield run.ip_captures
        yield from (run.ip_capture(each.name) for each in identities(experiment.topology))
    for node in experiment.topology.nodes:
        yield run.applications_of(node.id)
        if keeps_records:
            yield run.service_records_of(node.id)
        if experiment.record:
            yield run.recording(node.id)
