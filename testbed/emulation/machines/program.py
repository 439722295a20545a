"""A machine's share of a network over machines: a program that Spark starts on each machine.

Standard input has an `Order`. The program relays the sockets of its routers to the driver, and the
controller's socket from there, over mutual TLS, and lets the driver call its site. It outlives the task of
Spark, which ends with that of another machine: it ends when the driver closes the connection on which it
reports, or has said nothing for ten seconds. Then it takes down what is left, and removes its files.
"""

from __future__ import annotations

import os
import pickle
import shutil
import socket
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from captures.rundir import RunLayout
from captures.spark.machines import machine_key
from router.clock import Piece
from testbed.emulation.machines.calls import serve
from testbed.emulation.machines.relay import Relay, make_identity
from testbed.emulation.network.cleanup import clean_dead_runs, remove_run
from testbed.emulation.network.tunnels import Tunnel
from testbed.emulation.run.governor import EmulationClock
from testbed.emulation.run.lag_meters import LagMeters
from testbed.emulation.run.site import Site
from testbed.experiments.config import Experiment
from testbed.machine.probes import datapath
from testbed.support import run_state
from testbed.support.processes import end_like_ctrl_c, find_administration
from testbed.support.run_state import CONTROLLER, STATE_ROOT, RunState
from testbed.terminal import put, reported

#: Wall seconds between two signs of life of the driver, and after which the driver counts as dead.
ALIVE_S, DEAD_S = 1.0, 10.0
#: Names of sockets, and of the targets of relays: of the driver, and of a machine.
REPORT, SITE = "report", "site"
#: The key of a machine and its certificate, until it is started again.
IDENTITY = STATE_ROOT


class Offer(NamedTuple):
    """The answer of a machine whose set-up was checked.

    Attributes:
        certificate: that of its relay, PEM.
        datapath: "kernel" or "user".
    """

    certificate: bytes
    processors: int
    datapath: str


def offer() -> Offer:
    """Returns that of this machine, which gets its key if it has none."""
    STATE_ROOT.mkdir(mode=0o755, exist_ok=True)
    return Offer(make_identity(IDENTITY), len(os.sched_getaffinity(0)), datapath())


@dataclass(frozen=True)
class Share:
    """The share of one machine.

    Attributes:
        number: of the machine in the run.
        address: of the machine, for tunnels and its relay.
        nodes: ascending.
        tunnels: of links to nodes of other machines, by the link's index.
    """

    number: int
    address: str
    nodes: tuple[int, ...]
    tunnels: Mapping[int, Tunnel]


@dataclass(frozen=True)
class Order:
    """The facts that a machine needs before it reports to the driver.

    Attributes:
        driver: address and port of the driver's relay.
        trusted: certificates of all machines of the run, PEM.
        shares: by `machine_key`; a machine without a share ends at once.
    """

    driver: tuple[str, int]
    trusted: bytes
    shares: Mapping[str, Share]


class Host:
    """The object that the driver calls on a machine: the site, and its making, clock and files."""

    def __init__(self, state: RunState, share: Share) -> None:
        self._state, self._share = state, share
        self.run = RunLayout(Path(state.run_dir))
        self.site: Site
        self.clock: EmulationClock

    def make(
        self,
        experiment: Experiment,
        inputs: Mapping[str, bytes],
        first: Piece,
        datapath: str,
        incarnation: int,
    ) -> None:
        """Makes the site.

        Args:
            inputs: files of the run folder by path, with the keys of its routers.
            first: the first piece of the experiment clock, in this machine's monotonic time.
        """
        self._inputs = inputs.keys()
        for name, content in inputs.items():
            (path := self.run.path / name).parent.mkdir(exist_ok=True)
            path.write_bytes(content)
        nodes = len(experiment.topology.nodes)
        self.clock = EmulationClock(self.run, self._state.clock, nodes, first)
        self.site = Site(
            *(experiment, self.run, self._state, self.clock, datapath, incarnation),
            nodes=self._share.nodes,
            tunnels=self._share.tunnels,
        )

    @property
    def lag(self) -> LagMeters:
        return self.site.lags[0]

    def append(self, piece: Piece, zero_s: float) -> None:
        """Announces a piece of the clock, in this machine's monotonic time."""
        self.clock.page.append(piece)
        self.clock.page.zero_s = zero_s

    def end(self) -> None:
        """Removes all parts that are left, and the state."""
        site = getattr(self, "site", None)
        kills = {part: partial(site.end, part) for part in ("routers", "captures")} if site else {}
        stop = site.stop if site else (lambda: None)
        remove_run(self._state, kills, stop, lambda text: put(text, file=sys.stderr))

    def files(self) -> list[str]:
        """Returns the paths of the files of the site, relative to the run folder."""
        found = {str(path.relative_to(self.run.path)) for path in self.run.path.rglob("*") if path.is_file()}
        return sorted(found - self._inputs)

    def read(self, name: str) -> bytes:
        return (self.run.path / name).read_bytes()


def main() -> int:
    end_like_ctrl_c()
    find_administration()
    order: Order = pickle.load(sys.stdin.buffer)
    share = order.shares.get(machine_key())
    if share is None:
        return 0
    clean_dead_runs()
    folder = Path(tempfile.mkdtemp(prefix="cbcb-site-"))
    try:
        state = run_state.claim(folder)
        state.switches.mkdir(0o700)
        host = Host(state, share)
        try:
            _serve(host, state, share, order)
        finally:
            host.end()
    finally:
        shutil.rmtree(folder)
    return 0


def _serve(host: Host, state: RunState, share: Share, order: Order) -> None:
    """Reports to the driver, and carries out its calls until it has gone."""
    host.run.logs_folder.mkdir()
    own, report = state.switches / SITE, state.switches / REPORT
    relay = Relay(share.address, IDENTITY, order.trusted, host.run.relay_errors)
    routers = {f"r{node}": state.socket(node) for node in share.nodes}
    driver_s = {state.controller: (*order.driver, CONTROLLER), report: (*order.driver, REPORT)}
    relay.add({SITE: own, **routers}, driver_s)
    with serve(own, host), socket.socket(socket.AF_UNIX) as driver:
        driver.settimeout(DEAD_S)
        driver.connect(str(report))
        driver.sendall(b"%d %d\n" % (share.number, relay.port))
        try:
            while driver.recv(1 << 12):
                pass
        except OSError:
            put("the driver does not answer", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(reported(main))
