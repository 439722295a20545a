"""A machine's share of a network over machines: a program that Spark starts on each machine.

Standard input has what `Host.serve` needs, pickled. The program relays the sockets of its routers to the
driver, and the controller's socket from there, over mutual TLS, and lets the driver call its site. It
outlives the task of Spark, which ends with that of another machine: it ends when the driver says a word on
the connection on which it reports, closes it, or has said nothing for ten seconds. Then it takes down what is
left, removes its files, and says there what it could not (a line of JSON, a list of sentences).
"""

from __future__ import annotations

import json
import os
import pickle
import shutil
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial

from captures.rundir import RunLayout
from captures.spark.folder import process_folder, remove_abandoned
from captures.spark.machines import machine_key
from router.clock import Piece
from testbed.emulation.machines.calls import serve
from testbed.emulation.machines.relay import IDENTITY, Relay
from testbed.emulation.network.cleanup import KEPT, clean_dead_runs, remove_run
from testbed.emulation.network.tunnels import Tunnel
from testbed.emulation.run.governor import EmulationClock
from testbed.emulation.run.site import Site
from testbed.experiments.config import Experiment
from testbed.support import run_state
from testbed.support.processes import end_like_ctrl_c, find_administration
from testbed.support.run_state import CONTROLLER, STATE_ROOT, whole_machine
from testbed.terminal import put, reported

#: Wall seconds between two signs of life of the driver, and after which the driver counts as dead.
ALIVE_S, DEAD_S = 1.0, 10.0
#: Names of sockets, and of the targets of relays: of the driver, and of a machine.
REPORT, SITE = "report", "site"
#: Bytes of a file in one piece.
_PIECE = 1 << 24


class Host:
    """The object that the driver calls on a machine, beside its `site`.

    Args:
        address: IP address of the machine, for its relay.
        nodes, tunnels: as of `Site`.
    """

    site: Site
    clock: EmulationClock

    def __init__(self, address: str, nodes: Sequence[int], tunnels: Mapping[int, Tunnel]) -> None:
        self._address, self._nodes, self._tunnels = address, nodes, tunnels
        # A program that is killed leaves it to the next one.
        self.run = RunLayout(process_folder().path)
        self._state = run_state.claim(self.run.path)
        self._state.switches.mkdir(0o700)
        self._inputs = set[str]()

    def serve(self, driver: tuple[str, int], trusted: bytes) -> None:
        """Reports to the driver, carries out its calls until it has gone, and ends.

        Args:
            driver: address and port of its relay.
            trusted: certificates of all machines of the run, PEM.
        """
        state = self._state
        self.run.logs_folder.mkdir()
        own, report = state.switches / SITE, state.switches / REPORT
        (STATE_ROOT / IDENTITY).rename(state.switches / IDENTITY)  # the key is of this run alone
        relay = Relay(self._address, state.switches, trusted, self.run.relay_errors)
        routers = {f"r{node}": state.socket(node) for node in self._nodes}
        forwards = {state.controller: (*driver, CONTROLLER), report: (*driver, REPORT)}
        relay.add({SITE: own, **routers}, forwards)
        with serve(own, self), socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(DEAD_S)
            connection.connect(str(report))
            connection.sendall(f"{self._address} {relay.port}\n".encode())
            try:
                while (said := connection.recv(1 << 12)) and not said.strip():
                    pass  # a sign of life
            except OSError:
                put("the driver does not answer", file=sys.stderr)
            with suppress(OSError):  # it has gone for good
                connection.sendall(json.dumps(self.end()).encode() + b"\n")
                while connection.recv(1 << 12):
                    pass  # the relay, which ends with this process, has the line until the driver closes

    def make(
        self, inputs: Mapping[str, bytes], experiment: Experiment, datapath: str, incarnation: int
    ) -> None:
        """Makes the site.

        Args:
            inputs: files of the run folder by path, with the keys of its routers.
        """
        self._inputs |= inputs.keys()
        for name, content in inputs.items():
            (path := self.run.path / name).parent.mkdir(exist_ok=True)
            path.touch(0o600)  # the mode that keys need
            path.write_bytes(content)
        # Its first piece, of which only the driver knows, supersedes this one.
        self.clock = EmulationClock(self.run, self._state.clock, len(experiment.topology.nodes))
        self.site = Site(
            *(experiment, self.run, self._state, self.clock, datapath, incarnation),
            *(self._nodes, self._tunnels),
        )

    def append(self, piece: Piece, zero_s: float) -> None:
        """Announces a piece of the clock, in this machine's monotonic time."""
        self.clock.page.append(piece)
        self.clock.page.zero_s = zero_s

    def keep(self, name: str) -> str:
        """Keeps the files of the site until `discard`, even if this process or the driver ends.

        Args:
            name: of the driver's run folder.

        Returns:
            The path of the folder, from which the keys were deleted.
        """
        for each in self._inputs:
            (self.run.path / each).unlink(missing_ok=True)
        made = self.run.path
        kept = made.with_name(f"{KEPT}{name}-{made.name.rpartition('-')[2]}")
        self.run = RunLayout(made.rename(kept))
        return str(kept)

    def discard(self) -> None:
        """Removes the files, which the driver has."""
        shutil.rmtree(self.run.path)

    def files(self) -> list[str]:
        """Returns the paths of the files that were kept, relative to their folder."""
        return sorted(self.run.relative(path) for path in self.run.path.rglob("*") if path.is_file())

    def read(self, name: str, start: int) -> bytes:
        """Returns the bytes of a file from `start` on, as many as a piece has; none: the file ends there."""
        with (self.run.path / name).open("rb") as file:
            file.seek(start)
            return file.read(_PIECE)

    def end(self) -> list[str]:
        """Removes all parts that are left, and the state; returns sentences about what it could not."""
        site = getattr(self, "site", None)
        kills = {part: partial(site.end, part) for part in ("routers", "captures")} if site else {}
        stop = site.stop if site else (lambda: None)
        remove_run(self._state, kills, stop, (notes := list[str]()).append)
        return notes


def main() -> int:
    end_like_ctrl_c()
    find_administration()
    driver, trusted, shares = pickle.load(sys.stdin.buffer)
    if (share := shares.get(machine_key())) is None:
        return 0
    with whole_machine() as free:
        if not free:
            put("another run has the machine", file=sys.stderr)
            return os.EX_TEMPFAIL
        clean_dead_runs()
        remove_abandoned()
        host = Host(*share)
        try:
            host.serve(driver, trusted)
        finally:  # it has not begun to serve, or ends by a signal
            for note in host.end():
                put(note, file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(reported(main))
