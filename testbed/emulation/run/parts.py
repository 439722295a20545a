"""The parts of a running emulation under the faults of its events: stopped, killed, and started again.

Each fault is noted in the run folder (`captures.rundir.faults`), with the time before a signal is sent, and
after a part has started, so that what the part did lies outside. Lag while a part is away is its absence, not
the machine's slowness: the watch of lag does not count it (`testbed.emulation.run.lag_watch`).
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Thread

from captures.rundir import RunLayout
from captures.rundir.faults import FAULTS, FaultRecord, PartName
from testbed.emulation.network.switch_daemons import DATABASE, SWITCHES
from testbed.emulation.run.governor import EmulationClock
from testbed.emulation.run.lag_watch import LagWatch
from testbed.emulation.run.processes import Controller
from testbed.emulation.run.site import Site
from testbed.experiments.events import Event
from testbed.experiments.events.parts import (
    ApplicationKill,
    DescriptorsExhausted,
    PartFault,
    Restart,
    Stop,
    TunnelDown,
)
from testbed.experiments.workload.driver import Driver
from testbed.support.errors import RunError
from testbed.support.processes import Steps
from testbed.support.run_state import RunState

_Key = tuple[PartName, int | None]
#: A time of the wall clock in ns, and in experiment seconds.
_Moment = tuple[int, float]


@dataclass
class RunningParts:
    """The parts of an emulation; `node` is None for parts that a run has once.

    Args:
        state: takes the controller that is started.
        site: has all parts but the controller.
    """

    run: RunLayout
    state: RunState
    clock: EmulationClock
    controller: Controller
    site: Site
    driver: Driver
    watch: LagWatch
    #: What is away -> how it comes back.
    _back: dict[_Key, Callable[[], None]] = field(default_factory=dict, init=False)
    #: Nodes whose routers have no free descriptor -> their limits of before.
    _exhausted: dict[int, tuple[int, int]] = field(default_factory=dict, init=False)
    #: Links whose tunnels lose all frames.
    _cut: set[tuple[int, int]] = field(default_factory=set, init=False)
    _late: list[Thread] = field(default_factory=list, init=False)

    def stop(self, part: PartName, node: int | None) -> None:
        """Stops a process (SIGSTOP); a part that is away already stays as it is."""
        if (part, node) in self._back:
            return
        moment = self._moment()
        self._signal(part, node, signal.SIGSTOP)
        self._back[part, node] = lambda: self.resume(part, node)
        self.watch.excuse()
        self._note("stopped", part, node, moment=moment)

    def resume(self, part: PartName, node: int | None) -> None:
        if self._back.pop((part, node), None) is not None:
            self._signal(part, node, signal.SIGCONT)
            self._note("resumed", part, node)
            self.watch.over()

    def kill(self, part: PartName, node: int | None) -> None:
        """Kills a process (SIGKILL), or removes a switch; a part that is away already stays as it is."""
        if (part, node) in self._back:
            return
        if part in ("captures", "machine"):  # the run ends with it
            self._note("killed", part, node)
            if node is None:
                self._signal(part, node, signal.SIGKILL)
            else:
                self.site.at(node).kill_machine()
            return
        self.watch.excuse()
        self._note("killed", part, node)
        self._back[part, node] = lambda: self.start(part, node)
        match part, node:
            case "router", int():
                self._exhausted.pop(node, None)  # the next process has limits of its own
                self.site.at(node).kill_router(node)
                self.driver.lose(node)
            case "controller", _:
                self.controller.kill()
            case "switches", int():
                self.site.at(node).kill_daemon(node, SWITCHES)
            case "switch", int():
                self.site.at(node).network.daemons.remove_bridge(node)
            case "database", int():
                self.site.at(node).kill_daemon(node, DATABASE)

    def start(self, part: PartName, node: int | None) -> None:
        if self._back.pop((part, node), None) is None:
            return
        match part, node:
            case "router", int():
                self.site.at(node).restart_router(node)
                self.driver.regain(node)
            case "controller", _:
                self.state.add_processes(self.controller.restart())
            case "switches", int():
                self.site.at(node).restart_daemon(node, SWITCHES)
            case "switch", int():
                self.site.at(node).network.add_switch(node)
            case "database", int():
                self.site.at(node).restart_daemon(node, DATABASE)
                # The switches connect to it after seconds, in which the workload goes on.
                self._late.append(Thread(target=self._database_back, args=(node,), daemon=True))
                self._late[-1].start()
                return
        self._note("started", part, node)
        self.watch.over()

    def _database_back(self, node: int) -> None:
        with suppress(RunError, OSError):  # a daemon that has ended is found by others
            self.site.at(node).network.wait_for_database(node)
        self._note("started", "database", node)
        self.watch.over()

    def exhaust(self, node: int) -> None:
        """Leaves the router of a node no free file descriptor; a router that is away stays as it is."""
        if ("router", node) in self._back or node in self._exhausted:
            return
        moment = self._moment()
        with _naming("router", node):
            self._exhausted[node] = self.site.at(node).exhaust(node)
        # Who reads the note finds the router without a descriptor.
        self._note("exhausted", "router", node, moment=moment)

    def replenish(self, node: int) -> None:
        if (limits := self._exhausted.pop(node, None)) is not None:
            with _naming("router", node):
                self.site.at(node).replenish(node, limits)
            self._note("replenished", "router", node)

    def cut(self, link: tuple[int, int]) -> None:
        """Has the tunnel of a link lose all frames; a tunnel that does so already stays as it is."""
        if link not in self._cut:
            self._cut.add(link)
            self._note("cut", "tunnel", link=link)
            self.site.network.set_tunnel(*link, up=False)

    def join(self, link: tuple[int, int]) -> None:
        if link in self._cut:
            self.site.network.set_tunnel(*link, up=True)
            self._note("joined", "tunnel", link=link)
            self._cut.remove(link)

    def kill_application(self, node: int, app: str) -> None:
        self._note("killed", "application", node, app)
        self.driver.kill((node, app))

    def restore(self) -> None:
        """Brings back every part that is away: the workload has ended before the fault has.

        Raises RunError: a part has ended; the others are back.
        """
        steps = Steps()
        for exhausted in list(self._exhausted):
            steps.run("descriptors", self.replenish, exhausted)
        for link in list(self._cut):
            steps.run("tunnel", self.join, link)
        for (part, _), back in list(self._back.items()):
            steps.run(part, back)
        for thread in self._late:
            thread.join()
        steps.check()

    def release(self) -> None:
        """Lets every process go on that is stopped or has no descriptor; the run is taken down."""
        for exhausted in list(self._exhausted):
            with suppress(OSError, RunError, KeyError):
                self.replenish(exhausted)
        for part, node in self._back:
            with suppress(OSError, RunError, KeyError):
                self._signal(part, node, signal.SIGCONT)

    def _signal(self, part: PartName, node: int | None, number: int) -> None:
        with _naming(part, node):
            if part == "controller":
                os.kill(self.controller.child.pid, number)
            else:
                (self.site if node is None else self.site.at(node)).signal(node, number)

    def _moment(self) -> _Moment:
        return time.time_ns(), self.clock.now_s

    def _note(
        self,
        what: str,
        part: PartName,
        node: int | None = None,
        app: str | None = None,
        moment: _Moment | None = None,
        link: tuple[int, int] | None = None,
    ) -> None:
        t_ns, at_s = moment or self._moment()
        record = {"t_ns": t_ns, "at_s": at_s, "what": what, "part": part}
        where = ("node", node), ("app", app), ("link", link and "-".join(map(str, link)))
        record |= {name: value for name, value in where if value is not None}
        FAULTS.append(self.run, FaultRecord(**record))  # type: ignore[typeddict-item]


def part_steps_of(events: Iterable[Event]) -> list[tuple[float, Callable[[RunningParts], None]]]:
    """The moments of the faults of parts among some events, in order, and what happens then."""
    steps = [step for event in events if isinstance(event, PartFault) for step in _steps(event)]
    return sorted(steps, key=lambda step: step[0])


def _steps(fault: PartFault) -> Iterator[tuple[float, Callable[[RunningParts], None]]]:
    part, node = fault.part, fault.place
    match fault:
        case DescriptorsExhausted(node=router):
            yield fault.at_s, lambda parts: parts.exhaust(router)
            yield fault.ends_s, lambda parts: parts.replenish(router)
        case Stop():
            yield fault.at_s, lambda parts: parts.stop(part, node)
            yield fault.ends_s, lambda parts: parts.resume(part, node)
        case ApplicationKill(node=router, app=app):
            yield fault.at_s, lambda parts: parts.kill_application(router, app)
        case TunnelDown(link=link):
            yield fault.at_s, lambda parts: parts.cut(link)
            yield fault.ends_s, lambda parts: parts.join(link)
        case _:
            yield fault.at_s, lambda parts: parts.kill(part, node)
            if isinstance(fault, Restart):
                yield fault.ends_s, lambda parts: parts.start(part, node)


@contextmanager
def _naming(part: PartName, node: int | None) -> Iterator[None]:
    """Raises RunError in place of an error about a process that is gone.

    The check of the part, which the emulation makes after a RunError, has the reason.
    """
    try:
        yield
    except (ProcessLookupError, FileNotFoundError) as error:
        where = "" if node is None else f" of node {node}"
        raise RunError(f"the {part}{where} has ended by itself") from error
