"""An emulation: bring-up with barriers, workload, quiescence, and take-down in reverse order.

Captures start before the first router sends and stop after the last; Open vSwitch's counters are read within
that time while no frame is under way, so that all three accounts cover the same frames.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path

from captures.capturing.capture_set import CaptureError
from captures.rundir import RunLayout
from captures.rundir.faults import FAULTS, FaultRecord, PartName
from captures.rundir.inputs import MANIFEST, Manifest
from captures.rundir.measures import DROPS, LAG, ROUTERS, SWITCHES, TIMINGS
from captures.rundir.routing_tables import write_routing_tables
from router.privacy.application import PrivateApplication
from router.protocol.options import SCHEMES
from router.records.applications import ApplicationRecords
from router.runtime.client import ClientError
from testbed.controller.settings import Settings
from testbed.emulation.control.commands import Commands
from testbed.emulation.control.quiescence import Quiescence, not_quiet, quiet_limit_s
from testbed.emulation.control.running import Running
from testbed.emulation.network.calibration import Span, calibrations
from testbed.emulation.network.cleanup import remove_run
from testbed.emulation.run.demand import Estimate, work_of
from testbed.emulation.run.governor import CAUTION, SLOWEST, EmulationClock, Governor, Limits
from testbed.emulation.run.lag_meters import LagMeters
from testbed.emulation.run.lag_watch import OPENING_RATE, LagWatch
from testbed.emulation.run.parts import RunningParts, part_steps_of
from testbed.emulation.run.processes import Controller
from testbed.emulation.run.site import Site, barrier_s
from testbed.experiments.config import AUTO, Experiment
from testbed.experiments.events import Place
from testbed.experiments.events.network import steps_of
from testbed.experiments.events.parts import check_machines
from testbed.experiments.workload import Workload
from testbed.experiments.workload.driver import Driver, TimedAction
from testbed.experiments.workload.keys import members_of
from testbed.results.folders import new_run_folder
from testbed.results.inputs import write_inputs
from testbed.results.live.view import LiveView
from testbed.support import run_state
from testbed.support.errors import (
    BringUpError,
    BringUpInterrupted,
    InputError,
    PartLostError,
    RunError,
    naming_a_full_disk,
    naming_the_run,
)
from testbed.support.processes import ENDING, Steps, leave_closed_terminal, wait_until
from testbed.support.run_state import RunState
from testbed.terminal.numbers import clock as shown_time
from testbed.terminal.progress import Progress

#: The routers' parent compiles the matching engine if its sources have changed, in about 12 s of CPU time.
_COMPILING_S = 120.0
#: Further wall seconds, for each router, after the end in which the network must have become quiet.
_QUIET_PER_ROUTER_S = 0.2
#: Wall seconds in which the end of a process is noticed.
_CAUSE_S = 1.0
_CAUSE_POLL_S = 0.05


def emulate(
    experiment: Experiment,
    runs: Path,
    datapath: str,
    progress: Progress,
    hold: bool = False,
    view: LiveView | None = None,
    started: Callable[[Path], None] | None = None,
    site: Callable[..., Site] = Site,
    work: tuple[Workload, Estimate] | None = None,
) -> Path:
    """Emulates an experiment.

    Processes, devices and rules are gone when the function returns or raises.

    Args:
        runs: the folder in which the run folder is made.
        datapath: Open vSwitch datapath, "kernel" or "user".
        hold: keep the network up after the workload until the user interrupts.
        view: the live view, started before the network.
        started: is called with the run folder when the network is up.
        site: makes what carries the network; with the arguments of `Site`.
        work: the workload, and the estimate that says how fast the run may begin; None: by `work_of`.

    Returns:
        The run folder, complete except for the accounting.

    Raises:
        BringUpError: a part failed while the network was brought up; the run folder is kept.
        PartLostError: a part died while the workload was played; the run folder can be accounted for.
        RunError: the network could not be taken down in order; the run folder is kept.
        InputError: the path of `runs` is not in UTF-8, or an event needs several machines.
        MachineError: the file system of the run folder is full.
        KeyboardInterrupt: the user stopped the emulation; the run folder can be accounted for, and the
            message names the command. In the bring-up, it is a BringUpInterrupted.
    """
    try:
        str(runs.resolve()).encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{str(runs)!a}: the name is not in UTF-8, as paths of an emulation are") from error
    if site is Site:
        check_machines(experiment.events, experiment.topology)
    run_dir = new_run_folder(runs, experiment.name).resolve()
    with naming_a_full_disk(run_dir):
        progress.note(f"run folder: {run_dir}")
        emulation = Emulation(experiment, run_dir, datapath, progress, site, work)
        topology = experiment.topology
        sizes = f"bring-up: {len(topology.nodes)} routers, {len(topology.links)} links"
        try:
            with progress.stage("bring_up_s", sizes), _bringing_up(progress):
                write_inputs(
                    run_dir, experiment, emulation.workload, datapath, tag=emulation.state.tag, held=hold
                )
                if view is not None:
                    view.start(run_dir)
                emulation.bring_up()
            if started is not None:
                started(run_dir)
            lost: BaseException | None = None
            with progress.stage("run_s", "workload"):
                try:
                    emulation.run(hold)
                except (CaptureError, ClientError, RunError, KeyboardInterrupt) as error:
                    lost = error
            if lost is not None:
                with progress.stage("teardown_s", "what there is of the run"), _uninterrupted():
                    emulation.salvage(lost)
                TIMINGS.write(RunLayout(run_dir), {**progress.seconds, **emulation.measured})
                if isinstance(lost, KeyboardInterrupt):
                    with naming_the_run(run_dir):
                        raise lost
                raise PartLostError(str(lost), run_dir) from lost
            with progress.stage("teardown_s", "counters, captures, take-down"), _uninterrupted():
                emulation.take_down()
        except (CaptureError, ClientError) as error:
            raise RunError(str(error)) from error
        finally:
            with _uninterrupted():
                emulation.abandon()
        TIMINGS.write(RunLayout(run_dir), {**progress.seconds, **emulation.measured})
    return run_dir


class Emulation:
    """The parts of an emulation that have been started."""

    def __init__(
        self,
        experiment: Experiment,
        run_dir: Path,
        datapath: str,
        progress: Progress,
        site: Callable[..., Site] = Site,
        work: tuple[Workload, Estimate] | None = None,
    ) -> None:
        self.experiment = experiment
        self._folder = RunLayout(run_dir)
        self.progress = progress
        self.topology = experiment.topology
        self.nodes = [node.id for node in self.topology.nodes]
        self.workload, self._estimate = work or work_of(experiment)
        if (warning := self._estimate.warning(experiment)) is not None:
            progress.note(f"warning: {warning}")
        # From this call on, the run holds resources.
        self.state: RunState = run_state.claim(run_dir)
        self.state.switches.mkdir(0o700)
        self.clock = EmulationClock(self._folder, self.state.clock, len(self.nodes))
        #: Of the first start of routers and controller.
        self._incarnation = int(time.time())
        self.site = site(experiment, self._folder, self.state, self.clock, datapath, self._incarnation)
        # These come into being one after the other, and `_kills` says how each part is ended.
        self._controller: Controller
        self._driver: Driver
        self._parts: RunningParts | None = None
        self._kills: dict[str, Callable[[], None]] = {
            part: partial(self.site.end, part) for part in ("routers", "captures")
        }
        #: The run's own measurements, for summary.json.
        self.measured: dict[str, float] = {}
        self._barrier_s = barrier_s(len(self.nodes))

    def bring_up(self) -> None:
        """Starts all parts.

        On return every table is committed at every router.
        """
        self.state.nodes = len(self.nodes)
        run, security = self._folder, self.experiment.security
        settings = Settings(
            topology=run.topology,
            framework=self.experiment.broadcast.framework,
            layer=self.experiment.broadcast.layer,
            subtrees=SCHEMES[self.experiment.routing.scheme].needs_subtrees,
            socket=self.state.controller,
            security=security.mode,
            network_keys=run.network_keys,
            signing_keys=run.signing_keys if security.signs else None,
            incarnation=self._incarnation,
            windows=self.state.controller_windows if security.on else None,
            ip=self.experiment.network.ip,
            clock=self.clock.path,
            slot=self.clock.controller_slot,
            log=run.controller_log,
            state=run.controller_state,
            parent_pid=os.getpid(),
        )
        controller = self._controller = Controller(run, settings)
        self._kills["controller"] = lambda: controller.child.kill()
        self.state.add_processes(controller.child.pid)
        site = self.site
        self.progress.step("hosts and links")
        site.start_hosts()
        self.progress.step("switches")
        controller.wait_for("listening", self._barrier_s, "controller is listening")
        site.start_switches()
        self.progress.step("captures")
        site.start_captures()
        self.progress.step("rules of the switches")
        installed = self._counting("pipeline_installed")
        controller.wait_for("all_switches_ready", self._barrier_s, "every switch has its rules", installed)
        self.progress.step("counters")
        site.begin_counting()
        self.progress.step("routers")
        site.start_routers()

        def missing() -> str | None:
            missing = site.not_ready()
            self._show(len(self.nodes) - len(missing))
            return f"routers {missing[:10]} are not" if missing else None

        wait_until(missing, self._barrier_s + _COMPILING_S, "all routers are ready")
        self.progress.step("broadcast tables")
        what = "every router has its broadcast table"
        acknowledged = self._counting("table_acknowledged")

        def going_on() -> None:
            self.check()
            acknowledged()

        committed = controller.wait_for("committed", self._barrier_s, what, going_on)
        if committed["routers"] != len(self.nodes):
            raise RunError(f"{what}: only {committed['routers']} of {len(self.nodes)} have it")

    def _counting(self, event: str) -> Callable[[], None]:
        """Returns a function that shows for how many nodes the controller has logged an event."""
        fresh, found = self._controller.log.reader(), 0

        def show() -> None:
            nonlocal found
            found += sum(each["event"] == event for each in fresh())
            self._show(found)

        return show

    def _show(self, nodes: int) -> None:
        self.progress.update(f"{self.progress.current_step}, {nodes} of {len(self.nodes)}")

    def run(self, hold: bool) -> None:
        """Plays the workload and the timed events, and waits until the network is quiet."""
        sockets = {node: self.state.socket(node) for node in self.nodes}
        watch = self._lag_watch()
        delays_s: Sequence[float] = ()
        try:
            applications = self.workload.applications
            driver = self._driver = Driver(sockets, applications, private=self._private_applications())
            self._kills["applications"] = driver.close
            delays_s = driver.answer_delays_s
            commands = Commands(
                *(self.state.control, self._folder, self.topology, self.site.network),
                *(self.site.namespace, self.site.network.shaped, self._unsettled, self.site.quiet_s),
            )
            self._parts = RunningParts(
                *(self._folder, self.state, self.clock, self._controller, self.site, driver, watch)
            )
            lateness_max_s = self._play(driver, commands, self._parts, watch, hold)
        except (RunError, ClientError, CaptureError, KeyboardInterrupt) as error:
            # How late the parts were may be the reason; on a full disk the error is what counts.
            with suppress(OSError, RunError):
                LAG.write(self._folder, watch.report(delays_s))
            if not isinstance(error, KeyboardInterrupt):
                self._raise_cause()
            raise
        LAG.write(self._folder, watch.report(delays_s))
        self.measured = {
            "workload_lateness_max_s": lateness_max_s,
            "memory_per_router_bytes": self.site.memory_bytes() / len(self.nodes),
        }

    def _play(
        self, driver: Driver, commands: Commands, parts: RunningParts, watch: LagWatch, hold: bool
    ) -> float:
        """Plays the workload and the timed events, then waits until the network is quiet.

        Returns:
            The greatest lateness of the workload (`Driver.play`).

        Raises:
            RunError: a part died, or the network did not become quiet.
        """
        experiment, clock = self.experiment, self.clock

        def progress(now_s: float, sent: int, delivered: int) -> None:
            self.check()
            at = shown_time(now_s, experiment.duration_s)
            self.progress.update(f"{at}, {sent} messages sent, {delivered} delivered")

        actions = [
            TimedAction(at_s, partial(apply, self.site.network))
            for at_s, apply in steps_of(experiment.events)
        ]
        actions += [
            TimedAction(at_s, partial(apply, parts)) for at_s, apply in part_steps_of(experiment.events)
        ]
        rate = OPENING_RATE if experiment.time_scale == AUTO else experiment.time_scale
        with _ended_by_ctrl_c(driver, hold) as ended:

            def is_over() -> bool:
                self.check()
                return ended()

            zero_s = clock.begin(rate)
            with commands.served(driver, lambda: clock.now_s):
                with watch:
                    lateness_max_s = driver.play(
                        *(self.workload, clock.clock, experiment.duration_s, progress, actions),
                        *(zero_s, clock.workload, watch),
                    )
                    parts.restore()
                if hold and not ended():
                    self.progress.update("done; the network stays up until Ctrl-C")
                    driver.drain(is_over, timeout_s=float("inf"))
        self.progress.update("waiting until the network is quiet")
        with closing(Quiescence(driver.sockets.values(), commands.quiet_s())) as quiescence:
            # In this order: only after the trees have settled do quiet routers stay quiet.
            timeout_s = quiet_limit_s(experiment) + _QUIET_PER_ROUTER_S * len(driver.sockets)
            if not driver.drain(lambda: self._unsettled() is None and quiescence.quiet(), timeout_s):
                raise not_quiet(f"{timeout_s:g} s", quiescence.working, self._unsettled())
        self.check()
        return lateness_max_s

    def _private_applications(self) -> dict[Place, PrivateApplication] | None:
        if not self.experiment.privacy.on:
            return None

        def failed(error: OSError) -> None:
            self.progress.note(f"{self._folder.private_applications}: {error}")

        records = ApplicationRecords(self._folder.private_applications, failed)
        members = members_of(self.experiment, self.workload.applications)
        return {place: PrivateApplication(member, records) for place, member in members.items()}

    def _lag_watch(self) -> LagWatch:
        experiment = self.experiment
        limits = Limits(SLOWEST, experiment.fastest, experiment.lag_max_s, experiment.lag_max_wall_s)
        governed = experiment.time_scale == AUTO
        governor = Governor(limits, self._estimate.rate * CAUTION) if governed else None
        due_s = sorted(
            [item.at_s for item in self.workload.items]
            + [at_s for at_s, _ in (*steps_of(experiment.events), *part_steps_of(experiment.events))]
        )
        clock = self.clock
        own = LagMeters(clock, {("workload", None): clock.workload, ("controller", None): clock.controller})
        return LagWatch(clock, (*self.site.lags, own), limits, governor, due_s)

    def check(self) -> None:
        """Raises RunError or CaptureError if a part of the emulation has died."""
        self._controller.check()
        self.site.check()

    def _unsettled(self) -> str | None:
        """Returns None if the controller knows the present network and every router has its trees."""
        known = self._controller.epochs()
        reports = known.down_nodes, known.down_links
        for what, actual, reported in zip(("nodes", "links"), self.site.down(), reports, strict=True):
            if actual != reported:
                return f"the controller reports {what} {sorted(reported)} as down, expected {sorted(actual)}"
        return None if known.settled else "the controller has not brought all routers to one epoch"

    def _raise_cause(self) -> None:
        """Raises the error of `check`, which may follow shortly: applications notice the end of a part
        first."""
        deadline = time.monotonic() + _CAUSE_S
        while time.monotonic() < deadline:
            self.check()
            time.sleep(_CAUSE_POLL_S)

    def take_down(self) -> None:
        """Stops routers, then captures, then the network; writes all counters to the run folder.

        `abandon`, which follows, removes the state of the run.

        Raises:
            RunError: a part does not stop; where it is the controller or the network, the manifest has its
                links.
        """
        self.progress.step("routing tables")
        self._write_tables()
        self.progress.step("routers")
        counters = self.site.routers.stop()
        self._driver.close()
        ROUTERS.write(self._folder, counters)
        self.progress.step("counters")
        self.site.network.stop_ip()
        SWITCHES.write(self._folder, self.site.counters())
        DROPS.write(self._folder, self.site.network.daemons.take_dropped())
        spans = self.site.spans()
        self.progress.step("captures")
        self.site.captures.stop()
        self.clock.end()
        self._stop_network(spans)

    def _write_tables(self) -> None:
        # The query makes the routers send no frame.
        write_routing_tables(self._folder, Running(self.state).tables().items())

    def _stop_network(self, spans: list[Span]) -> None:
        self.progress.step("controller and network")
        steps = Steps()
        steps.run("controller", self._controller.child.stop)
        steps.run("network", self.site.stop)
        # The captures are complete, whatever does not stop.
        self._calibrate(spans)
        steps.check()

    def _calibrate(self, spans: list[Span]) -> None:
        """Adds the measured properties of links to the manifest, once the captures are complete.

        A failure is noted: the run is complete without them.
        """

        def write() -> None:
            if links := calibrations(self._folder, spans):
                MANIFEST.write(self._folder, Manifest(**{**MANIFEST.read(self._folder), "links": links}))

        self.progress.step("calibration")
        steps = Steps()
        steps.run("calibration of links", write)
        self._note_losses(steps)

    def _note_losses(self, steps: Steps) -> None:
        for failure in steps.failures:
            self.progress.note(f"not kept: {failure}")

    def salvage(self, error: BaseException) -> None:
        """Keeps what there is of a run that has lost a part or was interrupted; `abandon` removes the parts.

        The loss is noted, the other parts write what they have, and the captures are listed.

        Raises:
            OSError: the file system takes no more.
        """
        by_user = isinstance(error, KeyboardInterrupt)
        loss = FaultRecord(
            t_ns=time.time_ns(),
            at_s=self.clock.now_s,
            what="lost",
            part="run" if by_user else self._lost_part(),
            why="its user interrupted it" if by_user else str(error),
        )
        FAULTS.append(self._folder, loss)
        if self._parts is not None:
            self._parts.release()
        steps = Steps()
        if by_user:  # else a router may not answer
            steps.run("routing tables", self._write_tables)
        ROUTERS.write(self._folder, steps.run("routers", self.site.routers.stop, whole=False) or {})
        SWITCHES.write(self._folder, steps.run("counters", self.site.counters) or {})
        DROPS.write(
            self._folder, steps.run("drops of switches", self.site.network.daemons.take_dropped) or {}
        )
        spans = steps.run("counters of links", self.site.spans)
        steps.run("captures", self.site.captures.stop)
        steps.run("list of captures", self.site.list_captures)
        steps.run("controller", self._controller.child.stop)
        steps.run("network", self.site.stop)
        self._note_losses(steps)
        self._calibrate(spans or [])

    def _lost_part(self) -> PartName:
        try:
            self._controller.check()
        except RunError:
            return "controller"
        return self.site.lost() or "run"

    def abandon(self) -> None:
        """Removes all parts that are left, and the state of the run (`remove_run`).

        After `take_down` only the state is left.
        """
        # Captures last: until then they take what the other parts send.
        order = ("routers", "controller", "applications", "captures")
        kills = {part: self._kills[part] for part in order if part in self._kills}
        remove_run(self.state, kills, self.site.stop, self.progress.note)


@contextmanager
def _bringing_up(progress: Progress) -> Iterator[None]:
    """Names the step of the bring-up that failed, or that was interrupted.

    Raises:
        BringUpError: in place of an error of a part.
        BringUpInterrupted: in place of a KeyboardInterrupt.
    """
    try:
        yield
    except (CaptureError, ClientError, RunError) as error:
        raise BringUpError(f"bring-up failed at {progress.current_step or 'its start'}: {error}") from error
    except KeyboardInterrupt as interrupt:
        where = progress.current_step or "its start"
        raise BringUpInterrupted(f"bring-up interrupted at {where}; nothing was sent") from interrupt


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ignores SIGINT and the other ending signals: an interrupted take-down would leave more to clean."""
    held = {number: signal.signal(number, lambda *_: leave_closed_terminal()) for number in ENDING}
    try:
        yield
    finally:
        for number, handler in held.items():
            with suppress(TypeError):  # the handler was not set from Python
                signal.signal(number, handler)


@contextmanager
def _ended_by_ctrl_c(driver: Driver, hold: bool) -> Iterator[Callable[[], bool]]:
    """With `hold`, makes Ctrl-C, or a signal like it, end the driver's work and not the run.

    Yields whether a signal came.
    """
    over = False

    def end(*_: object) -> None:
        nonlocal over
        over = True
        leave_closed_terminal()
        driver.stop()

    if not hold:
        yield lambda: False
        return
    # `nohup` ignores SIGHUP.
    ending = [each for each in ENDING if signal.getsignal(each) is not signal.SIG_IGN]
    before = {each: signal.signal(each, end) for each in ending}
    try:
        yield lambda: over
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
        driver.resume()
