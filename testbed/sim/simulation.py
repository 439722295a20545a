"""Simulation of an experiment, with a run folder of the form of an emulation's."""

from __future__ import annotations

import resource
import time
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import testbed.controller.paths  # noqa: F401  # Numba is there before memory is measured.
from captures.rundir import RunLayout
from captures.rundir.capture_list import Kept
from captures.rundir.clock import CLOCK, ClockPiece
from captures.rundir.inputs import SIMULATED
from captures.rundir.measures import ROUTERS, SIMULATION, SWITCHES, TIMINGS, SimulationCost
from captures.rundir.routing_tables import write_routing_tables
from router.predicates.printer import format_filter
from router.protocol.events import Event, Settle, Started
from router.protocol.options import SERVICES
from router.records.applications import ApplicationRecords
from router.records.attention import ServiceRecords
from router.records.json_file import RecordFile
from testbed.emulation.control.quiescence import not_quiet, quiet_limit_s, quiet_period_s
from testbed.experiments.config import Experiment
from testbed.experiments.events.network import at_worst, steps_of
from testbed.experiments.events.parts import PartFault
from testbed.experiments.workload.generate import generate
from testbed.results.folders import new_run_folder
from testbed.results.inputs import write_inputs
from testbed.sim import EPOCH_NS, NS, Agenda
from testbed.sim.applications import Applications, RecordSink
from testbed.sim.controller import SimulatedController, SimulatedNetwork
from testbed.sim.fabric import Fabric
from testbed.sim.node import SimulatedRouter, guard_of, verifier_of
from testbed.sim.wires import Captures
from testbed.support.errors import InputError, RunError, naming_a_full_disk
from testbed.support.usage import resident_bytes, uncollected
from testbed.terminal.numbers import clock
from testbed.terminal.progress import Progress

#: Virtual time between the first commit and experiment second 0.
_PAUSE_NS = NS // 10
#: Virtual time within which the network must be set up.
_SET_UP_NS = 600 * NS
#: Events between two reports of progress.
_BURST = 1024


def simulate(experiment: Experiment, runs: Path, progress: Progress, captures: Kept = "all") -> Path:
    """Simulates an experiment.

    Returns:
        The run folder, complete except for the accounting.

    Raises:
        RunError: the network was not set up, or not quiet after the end, in (virtual) time.
        TypeError: an event is neither a fault nor an event of an application.
        InputError: the run folder cannot be made, or an event is a fault of a process.
        MachineError: its file system is full.
    """
    if parts := [event.action for event in experiment.events if isinstance(event, PartFault)]:
        raise InputError(f"{parts[0]}: a simulation has no processes and machines; `cbcb run` has them")
    run_dir = new_run_folder(runs, experiment.name).resolve()
    progress.note(f"run folder: {run_dir}")
    topology = experiment.topology
    simulation: Simulation | None = None
    # A collection of a large network takes longer than its events. Its routers, which are in cycles, are left
    # to the caller to collect.
    with naming_a_full_disk(run_dir), uncollected():
        try:
            with progress.stage(
                "bring_up_s", f"set-up: {len(topology.nodes)} routers, {len(topology.links)} links"
            ):
                simulation = Simulation(experiment, run_dir, progress, captures)
                simulation.set_up()
            with progress.stage("run_s", "workload in virtual time"):
                simulation.run()
            with progress.stage("teardown_s", "counters and captures"):
                simulation.finish()
        except KeyboardInterrupt as interrupt:
            raise KeyboardInterrupt(f"interrupted; {run_dir} cannot be accounted for") from interrupt
        finally:
            if simulation is not None:
                simulation.close()
        TIMINGS.write(RunLayout(run_dir), {**progress.seconds, **simulation.measured})
    return run_dir


class Simulation:
    """The parts of a simulation.

    Args:
        service_records: gets the records of the service; the workload's requests are then in no file either.
            None: both are files of the run folder.
    """

    def __init__(
        self,
        experiment: Experiment,
        run_dir: Path,
        progress: Progress,
        captures: Kept,
        service_records: RecordSink | None = None,
    ) -> None:
        topology = experiment.topology
        self.experiment = experiment
        self._folder = run = RunLayout(run_dir)
        self.workload = generate(experiment)
        kept = self.workload if service_records is None else replace(self.workload, items=())
        write_inputs(
            *(run_dir, experiment, kept, SIMULATED),
            virtual_start_ns=EPOCH_NS,
            kept=captures,
            service_records=service_records is None,
        )
        self._progress = progress
        self._memory_before = resident_bytes()
        self._set_up_from = time.process_time()
        self.agenda = Agenda()
        self._captures = Captures(topology, run, captures)
        security = experiment.security
        guards = partial(guard_of, security, run) if security.on else None
        # Verified keys are the same to all.
        verifier = verifier_of(security, run)
        self.fabric = Fabric(topology, self.agenda, self._captures, experiment.seed, guards)
        self.controller = SimulatedController(
            experiment, self.agenda, self.fabric, run.controller_log, self._controller_said, verifier
        )
        run.applications_folder.mkdir()
        self._records: list[RecordFile] = []
        records = ApplicationRecords(run.simulated_applications, _raise)
        self._records.append(records)
        if service_records is None and SERVICES[experiment.service.kind].keeps_records:
            run.service_folder.mkdir()
            file = ServiceRecords(run.simulated_service_records, _raise)
            self._records.append(file)
            service_records = file.write
        self.applications = Applications(
            experiment, self.workload, self.agenda, self._handle, records, service_records
        )
        self.routers = [
            SimulatedRouter(node.id, experiment, self.agenda, self.fabric, self.applications.tell, verifier)
            for node in topology.nodes
        ]
        self.fabric.connect([router.handle for router in self.routers], self.controller.frame_received)
        self._committed = False
        self.network = SimulatedNetwork(topology, self.fabric, self.controller)
        #: Measurements, named as those of an emulation, for summary.json.
        self.measured: dict[str, float] = {}

    def set_up(self) -> None:
        """Starts the controller and waits until every router has its broadcast table."""
        self.controller.start()
        while not self._committed:
            due = self.agenda.next_ns
            if due is None or due > _SET_UP_NS:
                raise RunError(f"not every router has its broadcast table after {_SET_UP_NS / NS:g} s")
            self.agenda.step()
            if self.agenda.done % _BURST == 0:
                self._progress.update(f"broadcast tables, {self.agenda.done} events")

    def run(self) -> None:
        """Plays the workload and the timed events, until the network is quiet."""
        agenda, experiment = self.agenda, self.experiment
        events_before, started = agenda.done, time.process_time()
        start_ns = agenda.now + _PAUSE_NS
        end_ns = start_ns + round(experiment.duration_s / experiment.virtual_rate * NS)
        agenda.at(start_ns, self._begin, experiment.virtual_rate)
        agenda.at(start_ns, self.applications.start)
        for at_s, apply in steps_of(experiment.events):
            at_ns = start_ns + round(at_s / experiment.virtual_rate * NS)
            if at_ns <= end_ns:
                agenda.at(at_ns, apply, self.network)

        while agenda.run(end_ns, _BURST):
            at_s = (agenda.now - start_ns) / NS * experiment.virtual_rate
            sent, delivered = self.applications.sent, self.applications.delivered
            self._progress.update(
                f"{clock(at_s, experiment.duration_s)}, {sent} messages sent, {delivered} delivered, "
                f"{agenda.done} events"
            )
        self._settle(end_ns)
        cpu_s = time.process_time() - started
        events = agenda.done - events_before
        used = resident_bytes() - self._memory_before
        self.measured = {"workload_lateness_max_s": 0.0, "memory_per_router_bytes": used / len(self.routers)}
        SIMULATION.write(
            self._folder,
            SimulationCost(
                events=events,
                set_up_cpu_s=round(started - self._set_up_from, 3),
                cpu_s=round(cpu_s, 3),
                events_per_cpu_s=round(events / cpu_s) if cpu_s else None,
                virtual_s=agenda.now / NS,
                memory_per_router_bytes=round(used / len(self.routers)),
                peak_memory_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            ),
        )
        self._progress.note(
            f"{events} events in {cpu_s:.1f} s of CPU time, {used / len(self.routers) / 1e3:.0f} kB a router"
        )

    def finish(self) -> None:
        """Writes the files that are complete only at the end: counters, tables, the list of captures."""
        run = self._folder
        ROUTERS.write(run, {router.node: router.counters() for router in self.routers})
        SWITCHES.write(run, self.fabric.switch_counters())
        # Tables of many routers have the same filters.
        texts = cache(format_filter)
        tables = ((each.node, [row.as_json(texts) for row in each.core.rows()]) for each in self.routers)
        write_routing_tables(run, tables)
        self._captures.finish()

    def close(self) -> None:
        """Closes the logs and writes the buffered records of captures, also after an error."""
        for file in self._records:
            file.close()
        self.controller.close()
        self._captures.flush()

    def _settle(self, end_ns: int) -> None:
        """Continues until all routers have the trees of the present network and no frame has moved for longer
        than a frame can be under way, as an emulation does.
        """
        agenda, fabric = self.agenda, self.fabric
        # Periodic RAs and SRs would never end.
        for router in self.routers:
            self._handle(router.node, Settle())
        period_ns = round(
            quiet_period_s(at_worst(self.experiment.topology, self.experiment.events).links) * NS
        )
        limit_ns = end_ns + round(quiet_limit_s(self.experiment) * NS)
        while True:
            quiet_ns = max(end_ns, fabric.moved_ns) + period_ns
            due = agenda.next_ns
            # After either limit, the network must be quiet.
            if due is None or due > min(quiet_ns, limit_ns):
                busy = [router.node for router in self.routers if not router.router.idle]
                if not busy and not fabric.under_way and self.controller.settled:
                    agenda.advance(quiet_ns)
                    return
                if due is None or due > limit_ns:
                    trees = None if self.controller.settled else "the controller has not settled"
                    raise not_quiet(f"{(limit_ns - end_ns) / NS:g} virtual s", busy, trees)
            agenda.step()

    # Events.

    def _begin(self, rate: float) -> None:
        before = self.agenda.piece
        self.agenda.piece = before.followed_by(self.agenda.now, rate)
        zero_s = self.agenda.piece.experiment_s
        CLOCK.write(
            self._folder,
            [
                ClockPiece(
                    t_ns=EPOCH_NS + piece.start_ns,
                    monotonic_ns=piece.start_ns,
                    experiment_s=piece.experiment_s - zero_s,
                    rate=piece.rate,
                )
                for piece in (before, self.agenda.piece)
            ],
        )
        for router in self.routers:
            router.rate_changed()

    def _handle(self, node: int, event: Event) -> None:
        self.routers[node].handle(event)

    def _controller_said(self, event: str) -> None:
        if event == "all_switches_ready":
            for router in self.routers:
                self.agenda.at(self.agenda.now, router.handle, Started())
        elif event == "committed":
            self._committed = True


def _raise(error: OSError) -> None:
    raise error
