"""The user's side of a running emulation: its topology, its routers, and commands to the run."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

from captures.rundir import RunLayout
from captures.rundir.inputs import read_topology
from captures.rundir.routing_tables import TableRow
from router.privacy import KeyRing, read_keys
from router.privacy.application import PrivateApplication
from router.privacy.member import Member
from router.records.applications import ApplicationRecords
from router.runtime.async_client import AsyncClient
from router.runtime.client import Client
from router.system import enter_network_namespace
from testbed.emulation.control.quiescence import quiet_period_s
from testbed.experiments.events import check_joined, links_between
from testbed.support.errors import InputError, RunError
from testbed.support.names import node_id
from testbed.support.processes import wait_until
from testbed.support.run_state import CHECKOUT, RunState, live_runs
from testbed.terminal import put
from topos import PROPERTIES, Link, Topology

#: Types of frames that spread predicates.
_ADVERTISEMENTS = ("RA", "XRA")
#: Names of properties of links in commands (`loss`), without the units: percent, Mbit/s, milliseconds.
_SETTINGS = {name.rpartition("_")[0]: name for name in PROPERTIES}
#: Units that may follow the number, by the end of the property's name.
_UNITS = {"percent": "%", "ms": "ms", "mbps": "Mbit/s"}
#: Wall seconds to wait for the answer to a command.
_TIMEOUT_S = 30.0
#: Environment of commands on a node.
NODE_VARIABLE, SOCKET_VARIABLE = "CBCB_NODE", "CBCB_SOCKET"


class Running:
    """A live run."""

    def __init__(self, state: RunState) -> None:
        self.state = state

    @classmethod
    def find(cls, tag: str | None) -> Running:
        """Returns the live run with a tag; without a tag, the live run of this checkout.

        Raises:
            InputError: no such run is live, or several are.
        """
        live = live_runs()
        if tag is not None:
            runs = [state for state in live if state.tag == tag]
        else:
            runs = [state for state in live if state.checkout == CHECKOUT]
            if live and not runs:
                tags = ", ".join(f"{state.tag} ({state.run_dir})" for state in live)
                raise InputError(
                    f"no emulation of this checkout is running, but of others {tags}: choose with --run TAG"
                )
        if not runs:
            raise InputError(
                f"no live run {tag}" if tag else "no emulation is running; `cbcb run --hold` starts one"
            )
        if len(runs) > 1:
            tags = ", ".join(state.tag for state in runs)
            raise InputError(f"several runs are live ({tags}): choose one with --run TAG")
        return cls(runs[0])

    @cached_property
    def topology(self) -> Topology:
        return read_topology(RunLayout(Path(self.state.run_dir)))

    def node(self, text: str) -> int:
        """Returns the id of a node that the user named.

        Raises:
            InputError: there is no such node.
        """
        return node_id(text, self.topology)

    def link(self, u: str, v: str) -> Link:
        """Returns the link between two nodes that the user named.

        Raises:
            InputError: there is no such node or link.
        """
        ends = (self.node(u), self.node(v))
        for _, problem in check_joined(ends, self.topology):
            raise InputError(problem)
        return links_between(self.topology, ends)[0]

    def client(self, node: int, app: str | None = None, key: KeyRing | None = None) -> Client:
        """Connects an application to the router of a node.

        Args:
            key: see `Client`; the application records in the run folder what its router cannot read.

        Raises:
            ClientError: the router does not answer, or has an application of that name.
        """
        return Client(self.state.socket(node), app=app, key=self._private(node, key))

    def async_client(self, node: int, app: str | None = None, key: KeyRing | None = None) -> AsyncClient:
        """Returns an application of the router of a node, for an asyncio program; `key`: see `client`."""
        return AsyncClient(self.state.socket(node), app, key=self._private(node, key))

    def keys(self) -> KeyRing | None:
        """Returns the keys in the run folder; None: routers read predicates and messages.

        Raises:
            KeyFileError: the file cannot be used.
        """
        path = RunLayout(Path(self.state.run_dir)).keys
        return read_keys(path) if path.exists() else None

    def _private(self, node: int, ring: KeyRing | None) -> PrivateApplication | None:
        if ring is None:
            return None
        path = RunLayout(Path(self.state.run_dir)).application_of_member(node, os.getpid())

        def failed(error: OSError) -> None:
            put(f"cbcb: the run has no record of this application: {error}", file=sys.stderr)

        # Written at once: a member that is killed has no time to write what it did.
        records = ApplicationRecords(path, failed, chunk=0)
        return PrivateApplication(Member(ring), records, owns_records=True)

    def tables(self) -> dict[int, list[TableRow]]:
        """Returns the rows of the routing tables of all routers, by node.

        Raises:
            ClientError: a router does not answer.
        """
        found = {}
        for node in self.topology.nodes:
            with self.client(node.id) as client:
                found[node.id] = client.status()["table"]
        return found

    def settle(self, timeout_s: float = 60.0) -> None:
        """Waits until the predicates of all applications have spread.

        Every router then has the trees of the present network, no router has an RA to send, and no RA is
        under way. A user who may not give commands to the run waits for the predicates alone.

        Raises:
            ClientError: a router does not answer.
            RunError: the run is being taken down, or RAs go on until the time has passed, as they do where
                routers advertise periodically.
        """
        period_s = quiet_period_s(self.topology.links)
        may_ask = os.access(self.state.control, os.W_OK)
        seen: dict[int, int] = {}
        idle: set[int] = set()
        since = time.monotonic()
        with ExitStack() as stack:
            clients = [stack.enter_context(self.client(node.id)) for node in self.topology.nodes]

            def difference() -> str | None:
                nonlocal since, period_s
                if may_ask:
                    answer = self.ask({"do": "trees"})
                    period_s = answer["quiet_s"]
                    if answer["fault"] is not None:
                        since = time.monotonic()
                        idle.clear()
                        return str(answer["fault"])
                for client in clients:
                    status = client.status(tables=False)
                    # What was received too: the fragments of a long RA come one by one.
                    frames = sum(
                        status["counters"][way].get(kind, 0)
                        for way in ("frames_sent", "frames_received")
                        for kind in _ADVERTISEMENTS
                    )
                    if seen.get(client.node) != frames:
                        seen[client.node], since = frames, time.monotonic()
                        idle.clear()
                    if status["idle"]:
                        idle.add(client.node)
                if len(idle) < len(clients):
                    working = [client.node for client in clients if client.node not in idle]
                    return f"routers {working[:10]} are at work"
                quiet_s = time.monotonic() - since
                return None if quiet_s >= period_s else f"the last RA moved {quiet_s:.2f} s ago"

            wait_until(difference, timeout_s, "the predicates have spread", interval_s=period_s / 4)

    def change_link(self, u: str, v: str, state: str, settings: Sequence[str]) -> None:
        """Takes a link "up" or "down", or gives it other properties ("set"); see `ask`, `shape_link`."""
        ends = (self.node(u), self.node(v))
        if state == "set":
            self.shape_link(*ends, settings)
        elif settings:
            raise InputError(f"{settings[0]}: expected only with set")
        else:
            self._fault(
                {"action": f"link_{_up_or_down(state)}", "link": ends}, f"link {ends[0]} {ends[1]} {state}"
            )

    def shape_link(self, u: int, v: int, settings: Sequence[str]) -> None:
        """Gives a link other properties, such as ["loss=1", "bandwidth=5"]; 0 takes one away; see `ask`.

        Raises:
            InputError: a setting is not of that form, or the kernel cannot provide it.
        """
        properties = {}
        for setting in settings:
            name, _, value = setting.partition("=")
            try:
                number = float(value.removesuffix(_UNITS[_SETTINGS[name].rpartition("_")[2]]))
                properties[_SETTINGS[name]] = number
            except (KeyError, ValueError) as error:
                units = {each: _UNITS[key.rpartition("_")[2]] for each, key in _SETTINGS.items()}
                expected = ", ".join(f"{each}=NUMBER[{unit}]" for each, unit in units.items())
                raise InputError(f"{setting}: expected {expected}") from error
        if not properties:
            raise InputError("set: expected a setting, such as loss=1 or bandwidth=5")
        event = {"action": "link_impair", "link": [u, v], **properties}
        self._fault(event, f"link {u} {v} set {' '.join(settings)}")

    def set_node(self, node: int, state: str) -> None:
        """Takes a node "up" or "down"; see `ask`."""
        self._fault({"action": f"node_{_up_or_down(state)}", "node": node}, f"node {node} {state}")

    def _fault(self, event: dict[str, Any], command: str) -> None:
        self.ask({"do": "fault", "event": event, "command": command})

    def namespace(self, node: int, command: str) -> str:
        """Returns the path of the network namespace of a node, for a command that the run logs; see `ask`."""
        answer = self.ask({"do": "enter", "node": node, "command": command})
        return str(answer["namespace"])

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Has the run carry out a command; returns its answer.

        Raises:
            InputError: the run refuses the command; the message says why.
            RunError: the run takes no commands, or does not answer.
        """
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(_TIMEOUT_S)
            try:
                connection.connect(str(self.state.control))
                connection.sendall(json.dumps(request).encode() + b"\n")
                line = connection.makefile("rb").readline()
            except TimeoutError as error:
                raise RunError(f"run {self.state.tag} does not answer in {_TIMEOUT_S:g} s") from error
            except (FileNotFoundError, ConnectionError) as error:
                raise RunError(
                    f"run {self.state.tag} takes no commands: it is being brought up or taken down"
                ) from error
            except PermissionError as error:
                raise InputError(
                    f"{self.state.control}: {error.strerror}; expected the user of the run"
                ) from error
        if not line:
            raise RunError(f"run {self.state.tag} ended without an answer")
        answer: dict[str, Any] = json.loads(line)
        if not answer["ok"]:
            raise InputError(answer["error"])
        return answer

    def environment(self, node: int) -> dict[str, str]:
        """Returns this process's environment with the node and the application socket of its router."""
        return {**os.environ, NODE_VARIABLE: str(node), SOCKET_VARIABLE: str(self.state.socket(node))}

    def replace_process(
        self, node: int, argv: Sequence[str], command: str, extra: Mapping[str, str] | None = None
    ) -> NoReturn:
        """Turns this process into a command on a node, in the network namespace of its host.

        Args:
            command: as the run logs it.
            extra: further variables of its environment.

        Raises:
            InputError: there is no such command, or this user may not enter the namespace.
            RunError: see `ask`.
        """
        namespace = self.namespace(node, command)
        try:
            enter_network_namespace(namespace)
        except OSError as error:
            raise InputError(f"{command}: {error.strerror or error}") from error
        try:
            os.execvpe(argv[0], list(argv), {**self.environment(node), **(extra or {})})
        except FileNotFoundError as error:
            raise InputError(f"{command}: this machine has no program {argv[0]}") from error
        except OSError as error:
            raise InputError(f"{command}: {error.strerror or error}") from error


def _up_or_down(text: str) -> str:
    if text not in {"up", "down"}:
        raise InputError(f"{text}: expected up or down")
    return text
