"""The sites of a network over machines, as the runner leads them: each call goes to every machine at once."""

from __future__ import annotations

import json
import pickle
import socket
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from captures.rundir import RunLayout
from captures.rundir.faults import PartName
from captures.rundir.inputs import MachineOfRun, Manifest, read_manifest, write_manifest
from captures.spark.machines import Answer, everywhere
from captures.spark.session import Session
from router.clock import NS, Piece
from router.records.json_file import write_json
from testbed.emulation.machines.calls import Each, Remote
from testbed.emulation.machines.clocks import Clocks, map_files
from testbed.emulation.machines.cut import cut_links, shares
from testbed.emulation.machines.program import (
    ALIVE_S,
    IDENTITY,
    REPORT,
    SITE,
    Offer,
    Order,
    Share,
)
from testbed.emulation.machines.relay import CLOCK, Relay, make_identity
from testbed.emulation.network.calibration import Span
from testbed.emulation.network.tunnels import FULL_FRAME, Tunnel, largest_frames
from testbed.emulation.run.governor import EmulationClock
from testbed.experiments.config import Experiment
from testbed.support.errors import InputError, RunError
from testbed.support.processes import Steps
from testbed.support.run_state import CONTROLLER, RunState
from topos import Topology

_PROGRAM = "testbed.emulation.machines.program"
#: Wall seconds until a machine that Spark was asked to start a program on has reported, and until the
#: programs have ended.
_REPORT_S, _END_S = 120.0, 60.0
#: UDP port of tunnels (IANA).
_TUNNEL_PORT = 4789
#: Time in which every machine has heard of a piece of the clock.
_AHEAD_NS = 50_000_000


class Machine(NamedTuple):
    """A machine that was checked.

    Attributes:
        key: see `captures.spark.machines.machine_key`.
        address: IP address that the other machines reach.
    """

    key: str
    name: str
    address: str
    offer: Offer

    @classmethod
    def of(cls, answer: Answer) -> Machine:
        address = answer.executor.rpartition(":")[0]
        return cls(answer.key, answer.name, address, pickle.loads(b"".join(answer.output)))


def shares_of(topology: Topology, machines: Sequence[Machine], tag: str) -> list[Share]:
    """Cuts a topology for some machines, by their processors; `tag`, of the run, tells its tunnels apart."""
    found = shares(topology, [each.offer.processors for each in machines])
    at = {node: number for number, nodes in enumerate(found) for node in nodes}
    tunnels: list[dict[int, Tunnel]] = [{} for _ in machines]
    for position, link in enumerate(cut_links(topology, found)):
        vni = ((int(tag, 16) << 8) + position) % (1 << 24)
        for here, there in ((at[link.u], at[link.v]), (at[link.v], at[link.u])):
            ends = machines[here].address, machines[there].address
            tunnels[here][link.index] = Tunnel(*ends, vni, _TUNNEL_PORT)
    return [
        Share(number, machine.address, nodes, tunnels[number])
        for number, (machine, nodes) in enumerate(zip(machines, found, strict=True))
    ]


class Sites:
    """The sites of a run; methods and attributes are those of `testbed.emulation.run.site.Site`.

    Args:
        spark: a session on the cluster.
        machines: of the cluster.
        experiment, run, state, clock, datapath, incarnation: as of `Site`.
    """

    def __init__(
        self,
        spark: Session,
        machines: Sequence[Machine],
        experiment: Experiment,
        run: RunLayout,
        state: RunState,
        clock: EmulationClock,
        datapath: str,
        incarnation: int,
    ) -> None:
        self._spark, self._machines = spark, machines
        self._run, self._state, self._clock = run, state, clock
        self._made = experiment, datapath, incarnation
        self._shares = shares_of(experiment.topology, machines, state.tag)
        self._at = {node: share.number for share in self._shares for node in share.nodes}
        # Calls of two threads to all machines, and the program of Spark.
        self._pool = ThreadPoolExecutor(2 * len(machines) + 1)
        self._relay: Relay | None = None
        #: Machine -> the connection on which it has reported.
        self._reports: dict[int, socket.socket] = {}
        self._task: Future[list[Answer]] | None = None
        #: By names of machines; one that is lost is left out.
        self._remotes: dict[str, Remote] = {}
        self._announcing = threading.Lock()

    # Bring-up.

    def start_hosts(self) -> None:
        """Has the machines report; makes their sites, hosts and links."""
        ports = self._join()
        assert self._relay is not None
        clocks = {}
        for machine, share in zip(self._machines, self._shares, strict=True):
            place = share.address, ports[share.number]
            # In a folder that only root may enter. Errors name a machine by its socket.
            path = self._state.switches / f"{share.number}-{machine.name}"
            clock = path.with_suffix(".clock")
            forwards = {self._state.socket(node): (*place, f"r{node}") for node in share.nodes}
            self._relay.add({}, {path: (*place, SITE), clock: (*place, CLOCK), **forwards})
            self._remotes[path.name] = Remote(path)
            clocks[path.name] = socket.socket(socket.AF_UNIX)
            clocks[path.name].connect(str(clock))
        self._clocks, self._names = Clocks(clocks), list(clocks)
        experiment, datapath, incarnation = self._made
        run, (first,) = self._run, self._clock.page.pieces()
        keys = (run.network_keys, *run.signing_keys.glob("*"))
        inputs = {run.relative(path): path.read_bytes() for path in (run.manifest, *keys) if path.exists()}
        for name, host in self._hosts.items():
            host.make(experiment, inputs, self._clocks.fit(name).piece(first), datapath, incarnation)
        self._clock.followers.append(self._append)
        self._each.start_hosts()
        self._require_whole_frames([host.site.network.probes for host in self._hosts.values()])

    @property
    def _each(self) -> Each:
        return Each(self._pool, [remote.site for remote in self._remotes.values()])

    @property
    def _hosts(self) -> dict[str, Each]:
        """The host of each machine; a thread of the pool calls it, which no signal interrupts."""
        return {name: Each(self._pool, [remote]) for name, remote in self._remotes.items()}

    def _require_whole_frames(self, probes: Sequence[Any]) -> None:
        """Raises RunError if a tunnel does not carry the largest frame of a host."""
        links = self._made[0].topology.links
        for index, size in largest_frames(probes).items():
            if size < FULL_FRAME:
                u, v = links[index].u, links[index].v
                between = " and ".join(self._machines[self._at[node]].name for node in (u, v))
                raise RunError(
                    f"link {u}-{v}: the network between {between} carries frames of {size} bytes at most"
                    f" through a tunnel; expected {FULL_FRAME}, which takes an MTU of 1550"
                )

    def _join(self) -> dict[int, int]:
        """Starts the program on each machine; returns the ports of their relays, by number."""
        trusted = b"".join(each.offer.certificate for each in self._machines) + make_identity(IDENTITY)
        listener = socket.socket(socket.AF_UNIX)
        with listener:
            report = self._state.switches / REPORT
            listener.bind(str(report))
            listener.listen(len(self._shares))
            listener.settimeout(_REPORT_S)
            own = _own_address(self._shares[0].address)
            relay = self._relay = Relay(own, IDENTITY, trusted, self._run.relay_errors)
            relay.add({REPORT: report, CONTROLLER: self._state.controller}, {})
            keys = [each.key for each in self._machines]
            order = pickle.dumps(
                Order((own, relay.port), trusted, dict(zip(keys, self._shares, strict=True)))
            )
            self._task = self._pool.submit(everywhere, self._spark, _PROGRAM, payload=order)
            ports: dict[int, int] = {}
            while len(ports) < len(self._shares):
                try:
                    connection = listener.accept()[0]
                except TimeoutError:
                    names = [each.name for number, each in enumerate(self._machines) if number not in ports]
                    raise RunError(f"no report from {', '.join(names)} in {_REPORT_S:g} s") from None
                number, port = map(int, connection.makefile("rb").readline().split())
                self._reports[number], ports[number] = connection, port
        threading.Thread(target=self._stay_alive, daemon=True).start()
        return ports

    def _stay_alive(self) -> None:
        """Tells the machines that the driver is there, as long as it is, and follows their clocks."""
        while self._reports:
            for connection in [*self._reports.values()]:
                with suppress(OSError):  # the machine is lost: calls to it find that out
                    connection.sendall(b"\n")
            with suppress(RunError):
                if self._clock.followers:
                    self._follow_drift()
            time.sleep(ALIVE_S)

    def _follow_drift(self) -> None:
        """Announces the rate in force once more, by the newest measurement; a rate to come is new enough."""
        with self._announcing:
            at_ns = time.monotonic_ns() + _AHEAD_NS
            *_, last = self._clock.page.pieces()
            if last.start_ns < at_ns:
                self._announce(last.followed_by(at_ns, last.rate))

    def _append(self, piece: Piece) -> None:
        with self._announcing:
            self._announce(piece)

    def _announce(self, piece: Piece) -> None:
        for name, host in self._hosts.items():
            host.append(self._clocks.fit(name).piece(piece), self._clock.page.zero_s)

    # While the run goes on.

    def at(self, node: int) -> Any:
        """Returns the site of a node."""
        return self._hosts[self._names[self._at[node]]].site

    def check(self) -> None:
        """Raises RunError or CaptureError if a part, or a machine, has ended by itself."""
        if self._task is not None and self._task.done():
            raise RunError("; ".join(_complaints(self._task)) or "the machines have ended the run")
        self._each.check()

    def lost(self) -> PartName | None:
        """Returns as `Site.lost`; "run": a machine does not answer, which is left out from now on."""
        found: PartName | None = None
        for name, host in self._hosts.items():
            try:
                found = host.site.lost() or found
            except RunError:
                del self._remotes[name]
                found = "run"
        return found

    @property
    def lags(self) -> list[Each]:
        return [host.lag for host in self._hosts.values()]

    def spans(self) -> list[Span]:
        """Returns the spans of all links, with times by the driver's clock."""
        found = []
        for name, host in self._hosts.items():
            for span in host.site.spans():
                times = np.array([span.began_ns, span.ended_ns])
                began_ns, ended_ns = map(int, self._clocks.fit(name).wall_to_driver(times))
                found.append(replace(span, began_ns=began_ns, ended_ns=ended_ns))
        return found

    def quiet_s(self) -> float:
        return max(float(host.site.quiet_s()) for host in self._hosts.values())

    def namespace(self, node: int) -> str:
        """Raises InputError: commands enter the namespaces of their own machine alone."""
        raise InputError(
            f"node {node} is on machine {self._machines[self._at[node]].name}; expected a command there"
        )

    def __getattr__(self, name: str) -> Each:
        each: Each = getattr(self._each, name)
        return each

    # Take-down.

    def stop(self) -> None:
        """Takes the networks down, fetches the files, and ends the programs.

        Raises:
            RunError: a machine has not done so.
        """
        steps = Steps()
        if self._remotes:
            steps.run("network", self._each.stop)
            steps.run("files", self._fetch)
            steps.run("clocks", self._write_clocks)
        self._remotes = {}
        for connection in self._reports.values():
            connection.close()
        self._reports.clear()
        if self._task is not None:
            wait([self._task], _END_S)
            steps.failures += _complaints(self._task)
            self._task = None
        if self._relay is not None:
            self._relay.kill()
        steps.check()

    def _fetch(self) -> None:
        """Adds the files of the machines to the run folder, with times by the driver's clock."""
        self._clocks.end()
        for name, host in self._hosts.items():
            with tempfile.TemporaryDirectory(dir=self._run.path) as folder:
                part = RunLayout(Path(folder))
                for file in host.files():
                    (path := part.path / file).parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(host.read(file))
                map_files(part, self._run, self._clocks.fit(name))
                _join(part, self._run)

    def _write_clocks(self) -> None:
        found = []
        for share, machine, name in zip(self._shares, self._machines, self._names, strict=True):
            fit = self._clocks.fit(name)
            if name in self._clocks.lost:
                raise RunError(f"{machine.name}: its clock does not answer: {self._clocks.lost[name]}")
            now_ns = np.array([time.time_ns()])
            found.append(
                MachineOfRun(
                    name=machine.name,
                    nodes=list(share.nodes),
                    ahead_s=int((now_ns - fit.wall_to_driver(now_ns))[0]) / NS,
                    drift=fit.drift,
                    bound_s=fit.bound_ns / NS,
                )
            )
        write_manifest(self._run, Manifest(**{**read_manifest(self._run), "machines": found}))


def _join(part: RunLayout, run: RunLayout) -> None:
    """Adds the lists and logs that each machine has to those of the run."""
    for name in (run.captures, run.ip_captures, run.routers_specs):
        if (path := part.path / run.relative(name)).exists():
            before = json.loads(name.read_bytes()) if name.exists() else []
            write_json(name, before + json.loads(path.read_bytes()))
    for name in (run.routers_log, run.routers_errors, run.relay_errors):
        if (path := part.path / run.relative(name)).exists():
            with name.open("ab") as file:
                file.write(path.read_bytes())


def _own_address(other: str) -> str:
    """Returns this machine's address on the way to another machine."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((other, 1))
        return str(probe.getsockname()[0])


def _complaints(task: Future[list[Answer]]) -> list[str]:
    """Returns what the programs, which may go on, have said at their end."""
    if not task.done():
        return [f"the machines have not ended the run after {_END_S:g} s; `cbcb clean --master` does"]
    if (error := task.exception()) is not None:
        return [str(error)]
    return [f"{each.name}: {each.errors}" for each in task.result() if each.errors]
