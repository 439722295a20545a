"""The sites of a network over machines, as the runner leads them: each call goes to every machine at once."""

from __future__ import annotations

import json
import pickle
import socket
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from captures.rundir import RunLayout
from captures.rundir.capture_list import tunnel_identity
from captures.rundir.faults import PartName
from captures.rundir.inputs import MANIFEST, MachineOfRun, Manifest
from captures.spark.machines import Answer, everywhere
from captures.spark.session import Session
from router.clock import NS, Piece
from router.records.json_file import write_json
from testbed.emulation.machines.calls import Each, Remote
from testbed.emulation.machines.clocks import Clocks, map_files
from testbed.emulation.machines.cut import Machine, tunnels
from testbed.emulation.machines.program import ALIVE_S, DEAD_S, REPORT, SITE
from testbed.emulation.machines.relay import CLOCK, Relay, make_identity
from testbed.emulation.network.calibration import Span
from testbed.emulation.network.namespaces import allow_descriptors
from testbed.emulation.network.tunnels import FULL_FRAME, NEEDED_MTU, PORT
from testbed.emulation.run.governor import FOLLOWED_LEAD_S, EmulationClock
from testbed.experiments.config import Experiment
from testbed.support.errors import InputError, RunError, UnmendedError
from testbed.support.processes import Steps
from testbed.support.run_state import CONTROLLER, RunState

_PROGRAM = "testbed.emulation.machines.program"
#: Wall seconds until a machine that Spark was asked to start a program on has reported, and until a program
#: has ended.
_REPORT_S, _END_S = 120.0, 60.0


class Sites:
    """The sites of a run; methods and attributes are those of `testbed.emulation.run.site.Site`.

    Args:
        spark: a session on the cluster.
        parts: the nodes of each machine.
        experiment, run, state, clock, datapath, incarnation: as of `Site`.
    """

    #: They come into being one after the other.
    _relay: Relay
    _task: Future[list[Answer]]
    _clocks: Clocks

    def __init__(
        self,
        spark: Session,
        parts: Mapping[Machine, Sequence[int]],
        experiment: Experiment,
        run: RunLayout,
        state: RunState,
        clock: EmulationClock,
        datapath: str,
        incarnation: int,
    ) -> None:
        self._spark, self._nodes = spark, parts
        self._run, self._state, self._clock = run, state, clock
        self._made = experiment, datapath, incarnation
        self._at = {node: machine for machine, nodes in parts.items() for node in nodes}
        # Calls of two threads to all machines, and the program of Spark.
        self._pool = ThreadPoolExecutor(2 * len(parts) + 1)
        #: The connections on which machines have reported.
        self._reports: dict[Machine, socket.socket] = {}
        #: By machine; one that is lost is left out.
        self._remotes: dict[Machine, Remote] = {}
        self._announcing, self._over = threading.Lock(), threading.Event()

    # Bring-up.

    def start_hosts(self) -> None:
        """Has the machines report; makes their sites, hosts and links."""
        allow_descriptors(len(self._at))
        ports, folder = self._start_programs(), self._state.switches  # which only root may enter
        remotes, clocks = {}, {}
        for machine, nodes in self._nodes.items():
            place = machine.address, ports[machine]
            path, clock = folder / str(machine), folder / f"clock-{nodes[0]}"
            forwards = {self._state.socket(node): (*place, f"r{node}") for node in nodes}
            self._relay.add({}, {path: (*place, SITE), clock: (*place, CLOCK), **forwards})
            remotes[machine] = Remote(path)
            clocks[machine] = socket.socket(socket.AF_UNIX)
            clocks[machine].connect(str(clock))
        self._clocks, self._remotes = Clocks(clocks, self._follow_drift), remotes
        self._require_clocks()
        self._write_machines()
        run, (first,) = self._run, self._clock.page.pieces()
        keys = (run.network_keys, *run.signing_keys.glob("*"))
        inputs = {run.relative(path): path.read_bytes() for path in (run.manifest, *keys) if path.exists()}
        for host in self._hosts.values():
            host.make(inputs, *self._made)
        self._append(first)
        self._clock.followers.append(self._append)
        self._each.start_hosts()
        self._require_whole_frames()

    @property
    def _each(self) -> Each:
        return Each(self._pool, [remote.site for remote in self._remotes.values()])

    @property
    def _hosts(self) -> dict[Machine, Each]:
        """The host of each machine; a thread of the pool calls it, which no signal interrupts."""
        return {machine: Each(self._pool, [remote]) for machine, remote in self._remotes.items()}

    def _require_clocks(self) -> None:
        for machine, error in self._clocks.lost.items():
            raise RunError(f"{machine} does not answer: {error!r}")

    def _require_whole_frames(self) -> None:
        """Raises RunError if a tunnel does not carry the largest frame of a host."""
        probes = self._each.network.probes
        probes.send()
        for index in probes.missing():
            link = self._made[0].topology.links[index]
            raise RunError(
                f"link {link.u}-{link.v}: the tunnel between {self._at[link.u]} and {self._at[link.v]} loses"
                f" frames of {FULL_FRAME} bytes; expected an open UDP port {PORT}, and an MTU of {NEEDED_MTU}"
            )

    def _start_programs(self) -> dict[Machine, int]:
        """Starts the program on each machine; returns the ports of their relays."""
        trusted = b"".join(each.certificate for each in self._nodes) + make_identity(self._state.switches)
        places = {node: machine.address for node, machine in self._at.items()}
        ends = tunnels(self._made[0].topology, places, self._state.tag)
        orders = {each.key: (each.address, nodes, ends[each.address]) for each, nodes in self._nodes.items()}
        ports, at = dict[Machine, int](), {each.address: each for each in self._nodes}
        listener = socket.socket(socket.AF_UNIX)
        with listener:
            report = self._state.switches / REPORT
            listener.bind(str(report))
            listener.listen(len(orders))
            listener.settimeout(ALIVE_S)
            own = str(self._spark.sparkContext.getConf().get("spark.driver.host"))
            self._relay = Relay(own, self._state.switches, trusted, self._run.relay_errors)
            self._relay.add({REPORT: report, CONTROLLER: self._state.controller}, {})
            order = pickle.dumps(((own, self._relay.port), trusted, orders))
            self._task = self._pool.submit(everywhere, self._spark, _PROGRAM, payload=order)
            threading.Thread(target=self._stay_alive, daemon=True).start()
            until = time.monotonic() + _REPORT_S
            while names := [str(each) for each in self._nodes if each not in ports]:
                if self._task.done() or time.monotonic() > until:
                    why = [f"no report from {', '.join(names)}", *self._ended(), *_complaints(self._task)]
                    raise RunError("; ".join(why))
                with suppress(OSError, ValueError):  # a connection that fails has no report
                    connection = listener.accept()[0]
                    connection.settimeout(DEAD_S)
                    address, port = connection.makefile("r").readline().split()
                    ports[at[address]] = int(port)
                    self._reports[at[address]] = connection
        return ports

    def _stay_alive(self) -> None:
        """Tells the machines that the driver is there, as long as it is."""
        while not self._over.wait(ALIVE_S):
            for connection in [*self._reports.values()]:
                with suppress(OSError):  # the machine is lost: calls to it find that out
                    connection.sendall(b"\n")

    def _follow_drift(self) -> None:
        """Announces the rate in force once more, by the newest measurement; a rate to come is new enough."""
        with self._announcing:
            at_ns = time.monotonic_ns() + round(FOLLOWED_LEAD_S * NS)
            *_, last = self._clock.page.pieces()
            if self._clock.followers and last.start_ns < at_ns:
                self._announce(last.followed_by(at_ns, last.rate))

    def _append(self, piece: Piece) -> None:
        with self._announcing:
            self._announce(piece)

    def _announce(self, piece: Piece) -> None:
        for machine, host in self._hosts.items():
            host.append(self._clocks.fit(machine).piece(piece), self._clock.page.zero_s)

    # While the run goes on.

    def at(self, node: int) -> Any:
        """Returns the site of a node."""
        return self._hosts[self._at[node]].site

    def check(self) -> None:
        """Raises RunError or CaptureError if a part, or a machine, has ended by itself."""
        self._relay.check()
        self._require_clocks()
        self._each.check()

    def lost(self) -> PartName | None:
        """Returns as `Site.lost`; a machine that does not answer is left out from now on."""
        found: PartName | None = None
        for machine, host in self._hosts.items():
            try:
                found = host.site.lost() or found
            except RunError:
                self._clocks.lost.setdefault(machine, OSError("lost"))
        if left := self._remotes.keys() & self._clocks.lost.keys():
            self._remotes = {each: remote for each, remote in self._remotes.items() if each not in left}
            found = "machine"
        return found

    @property
    def lags(self) -> list[Each]:
        return [host.site.lag for host in self._hosts.values()]

    def spans(self) -> list[Span]:
        """Returns the spans of all links, with times by the driver's clock."""
        return [
            replace(span, began_ns=times[0], ended_ns=times[1])
            for machine, host in self._hosts.items()
            for fit in [self._clocks.fit(machine)]
            for span in host.site.spans()
            for times in [fit.to_driver(np.array([span.began_ns, span.ended_ns])).tolist()]
        ]

    def quiet_s(self) -> float:
        return max(float(host.site.quiet_s()) for host in self._hosts.values())

    def namespace(self, node: int) -> str:
        """Raises InputError: the driver enters no namespace of another program."""
        raise InputError(f"node {node}: a network over several machines lets nobody into its nodes")

    def __getattr__(self, name: str) -> Each:
        """A method of all sites, or of a part of them."""
        if name.startswith("_"):
            raise AttributeError(name)  # of this object, which has it later
        each: Each = getattr(self._each, name)
        return each

    # Take-down.

    def stop(self) -> None:
        """Takes the networks down, fetches the files, and ends the programs; a second call does nothing.

        Raises:
            UnmendedError: a machine has not done so, or a wall clock was set.
        """
        steps = Steps()
        if self._remotes:
            steps.run("network", self._each.stop)
            self._clocks.end()
            for machine, host in self._hosts.items():
                steps.run(f"files of {machine}", self._fetch, machine, host)
            steps.run("clocks", self._write_machines)
        self._remotes = {}
        steps.failures += self._ended()
        if hasattr(self, "_relay"):
            self._relay.kill()
        steps.check(UnmendedError)

    def _fetch(self, machine: Machine, host: Each) -> None:
        """Adds the files of a machine to the run folder, with times by the driver's clock."""
        kept = host.keep(self._run.path.name)
        try:
            with tempfile.TemporaryDirectory(dir=self._run.path) as folder:
                part = RunLayout(Path(folder))
                for name in host.files():
                    (path := part.path / name).parent.mkdir(parents=True, exist_ok=True)
                    with path.open("wb") as file:
                        while piece := host.read(name, file.tell()):
                            file.write(piece)
                map_files(part, self._run, self._clocks.fit(machine))
                _add_lists(part, self._run)
        except Exception as error:
            raise RunError(f"{error}; {machine} keeps its files in {kept}: copy and delete them") from error
        host.discard()

    def _write_machines(self) -> None:
        """Adds to the manifest what is known of the clocks, and the second captures of cut links."""
        found, steps = [], dict[str, None]()
        for machine, nodes in self._nodes.items():
            fit, now_ns = self._clocks.fit(machine), np.array([time.time_ns()])
            found.append(
                MachineOfRun(
                    name=machine.name,
                    nodes=list(nodes),
                    ahead_s=int((now_ns - fit.to_driver(now_ns))[0]) / NS,
                    drift=fit.drift,
                    bound_s=fit.bound_ns / NS,
                    chrony=machine.chrony,
                )
            )
            steps |= dict.fromkeys(fit.steps)
        manifest, cut = MANIFEST.read(self._run), self._made[0].topology.cut(self._nodes.values())
        captures = sorted(self._run.relative(self._run.capture(tunnel_identity(link).name)) for link in cut)
        evidence = [*dict.fromkeys([*manifest["evidence"], *captures])]
        MANIFEST.write(self._run, Manifest(**{**manifest, "machines": found, "evidence": evidence}))
        if steps:
            raise RunError("; ".join(steps))

    def _ended(self) -> list[str]:
        """Ends the programs that have reported; returns what they have not removed, and which are lost."""
        self._over.set()
        for connection in self._reports.values():
            with suppress(OSError):
                connection.sendall(b"end\n")
        found = []
        while self._reports:
            machine, connection = self._reports.popitem()
            said = ""
            with connection, suppress(OSError):
                connection.settimeout(_END_S)
                said = connection.makefile().readline()
            lost = ["has not ended the run; `cbcb clean --master` removes what is left there"]
            # A machine that is killed while it writes leaves half a line.
            found += [f"{machine}: {each}" for each in (json.loads(said) if said.endswith("\n") else lost)]
        return found


def _add_lists(part: RunLayout, run: RunLayout) -> None:
    """Adds the lists and logs that each machine has to those of the run."""
    for name in (run.captures, run.ip_captures, run.routers_specs):
        if (path := part.path / run.relative(name)).exists():
            before = json.loads(name.read_bytes()) if name.exists() else []
            write_json(name, before + json.loads(path.read_bytes()))
    for name in (run.routers_log, run.routers_errors, run.relay_errors):
        if (path := part.path / run.relative(name)).exists():
            with name.open("ab") as file:
                file.write(path.read_bytes())


def _complaints(task: Future[list[Answer]]) -> list[str]:
    """Returns what the programs that have not reported have said at their end."""
    wait([task], _END_S)
    if not task.done():
        return ["Spark has not ended them"]
    if (error := task.exception()) is not None:
        return [str(error)]
    return [f"{each.name}: {each.errors}" for each in task.result() if each.status]
