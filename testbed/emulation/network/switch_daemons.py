"""Open vSwitch daemons of a run's own: one ovs-vswitchd, with its database, for each group of switches.

An ovs-vswitchd of the userspace datapath polls all its ports at every wake-up, and works through all of them
for each port that it adds or removes. Groups keep that work small, and a daemon that is killed takes all its
bridges along. Each daemon runs in the network namespace of its group's devices: two userspace datapaths in
one namespace would share the name of a device. See docs/adr/0016-switch-daemons-of-a-run.md.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from captures.rundir.measures import SwitchCounters, SwitchDrops
from router.system import enter_network_namespace, returning_to_its_namespace
from testbed.emulation.network import switch_sockets
from testbed.emulation.network.namespaces import run
from testbed.emulation.network.switch_sockets import JsonRpc, parse_drops, parse_lost, parse_ports
from testbed.machine.probes import switch_schema
from testbed.support.errors import RunError
from testbed.support.names import datapath_id, port_device, switch_name
from testbed.support.processes import Steps, last_line, wait_until

#: Switches of one daemon: at least, as many as leave few daemons, and at most, unless there are too many
#: daemons. At each wake-up a daemon works through all its switches and ports: 0.2 ms for one switch, 0.4 ms
#: for 5, 0.9 ms for 25. A daemon takes 15 MB of memory, and 26 ms of CPU to start.
_SWITCHES_PER_DAEMON_MIN, _SWITCHES_PER_DAEMON_MAX = 5, 10
_DAEMONS_FEW, _DAEMONS_MAX = 25, 100
_ANSWER_S = 30.0
#: Wall seconds in which all daemons have ended that were killed.
_ENDS_S = 30.0
#: Seconds of the machine's monotonic clock before which Open vSwitch 3.1 finds no processor
#: (`count_cpu_cores` in its lib/ovs-thread.c) and starts no handler thread. The threads that it starts later
#: get no frame: an ovs-vswitchd that was started earlier loses every frame without a flow for good.
_COUNTS_PROCESSORS_S = 10.0
#: Wall seconds in which an ovs-vswitchd of the kernel datapath has started its handler threads.
_HANDLERS_S = 10.0
#: Wall seconds in which a daemon must have made its bridges: a base, and a share for each bridge of the run.
_START_S, _START_PER_BRIDGE_S = 30.0, 0.2
#: Longest wait of a switch between two attempts to connect to the controller, in ms.
_BACKOFF_MS = 1000
#: The controller's socket is on this machine: a controller that has ended closes it, without a probe.
_PROBE_MS = 60_000
#: Counters are read over `dpctl/show`; the daemon need not copy them to its database.
_STATISTICS_MS = 600_000

#: What an empty database gets before the bridges.
_SETTINGS = (
    *("set", "open_vswitch", ".", "other_config:n-handler-threads=1"),
    *("other_config:n-revalidator-threads=1", f"other_config:stats-update-interval={_STATISTICS_MS}"),
)
#: Asks ovs-vswitchd to note that it has done what the database says.
_ASK = [{"op": "mutate", "table": "Open_vSwitch", "where": [], "mutations": [["next_cfg", "+=", 1]]}]

_T = TypeVar("_T")

#: The commands of a daemon's two processes, in the order of their start -> the place in `Daemon.processes`.
DATABASE, SWITCHES = "ovsdb-server", "ovs-vswitchd"
_PLACES = {DATABASE: 0, SWITCHES: -1}
#: Open vSwitch's names of the datapaths: the type of a bridge, and the datapath that all bridges share.
_TYPES = {"user": ("netdev", "netdev@ovs-netdev"), "kernel": ("system", "system@ovs-system")}


def switches_per_daemon(switches: int) -> int:
    """Returns the size of the groups of a network of so many switches."""
    size = min(-(-switches // _DAEMONS_FEW), _SWITCHES_PER_DAEMON_MAX)
    return max(size, _SWITCHES_PER_DAEMON_MIN, -(-switches // _DAEMONS_MAX))


class Daemon:
    """The two processes of a group of switches.

    Args:
        namespace: path of the network namespace of their devices.
        ports: of the switches, by node.

    Its methods raise RunError if a process has ended or does not answer, and no event killed it.
    """

    def __init__(
        self, folder: Path, number: int, namespace: str, ports: Mapping[int, Sequence[int]], datapath: str
    ) -> None:
        self.namespace = namespace
        self.ports = ports
        self._datapath = datapath
        self._stem = str(folder / str(number))
        self._environment = {**os.environ, "OVS_RUNDIR": str(folder), "OVS_LOGDIR": str(folder)}
        self.processes: list[subprocess.Popen[bytes]] = []
        #: Commands of the processes that were killed on purpose and not started again.
        self.away: set[str] = set()
        #: Failed upcalls that have been reported; None: ovs-vswitchd has just been started.
        self.lost_upcalls: int | None = None
        #: Failed upcalls of an ovs-vswitchd that was killed; its datapath and count are removed.
        self._lost_before = 0

    def path(self, suffix: str) -> Path:
        """A file of this daemon, such as `db`, `sock` (of the database), `pid`, `ctl`."""
        return Path(f"{self._stem}.{suffix}")

    def start(self, command: str) -> None:
        """Starts a process; `db` must be there."""
        self.processes.append(self._started(command))

    def _started(self, command: str) -> subprocess.Popen[bytes]:
        if command == DATABASE:
            arguments = [str(self.path("db")), f"--remote=punix:{self.path('sock')}"]
            arguments.append(f"--unixctl={self.path('dbctl')}")
        else:
            self.lost_upcalls = None
            arguments = [f"unix:{self.path('sock')}", f"--unixctl={self.path('ctl')}"]
            arguments.append(f"--pidfile={self.path('pid')}")
        # setpriv becomes the daemon: it ends with the thread that started it.
        die_too = ["setpriv", "--pdeathsig", "KILL", "--"]
        quiet = ["-vconsole:off", "-vsyslog:off", "-vfile:warn", f"--log-file={self.path(command)}"]
        with returning_to_its_namespace():
            enter_network_namespace(self.namespace)
            return subprocess.Popen(
                [*die_too, command, *arguments, *quiet],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                # Out of the terminal's reach, but in this process's session: a kernel with autogroups gives
                # each session the same share of the processors, and the routers have one.
                process_group=0,
            )

    def configure(self, *words: str) -> None:
        """Changes the database by commands of `ovs-vsctl`, whether or not ovs-vswitchd runs."""
        options = ["--no-syslog", f"--timeout={_ANSWER_S:.0f}", f"--db=unix:{self.path('sock')}", "--no-wait"]
        try:
            run(["ovs-vsctl", *options, *words])
        except RunError as error:
            raise RunError(f"{self.describe(DATABASE)}: {error}; {self.last_words()}") from error

    # Each process may be killed and started for several switches of the group at once.

    def kill(self, command: str) -> None:
        """Kills a process; the bridges of the group end with ovs-vswitchd.

        `restart` follows.
        """
        if command == SWITCHES and self._datapath == _TYPES["kernel"][1] and command not in self.away:
            self._lost_before = self.take_lost()
        self.away.add(command)
        process = self.processes[_PLACES[command]]
        process.kill()
        process.wait()

    def restart(self, command: str) -> int:
        """Starts a process on the database as it is; returns its process id.

        Nothing is done if it has been started since it was killed.
        """
        place = _PLACES[command]
        if command in self.away:
            if command == DATABASE:
                self.path("sock").unlink(missing_ok=True)
            elif self._datapath == _TYPES["kernel"][1]:
                # Into a datapath that it finds, ovs-vswitchd sends a frame of its own, to try the kernel's
                # features (`check_trunc_action` and others in its ofproto/ofproto-dpif.c).
                run(["nsenter", f"--net={self.namespace}", "ovs-dpctl", "del-dp", self._datapath])
            self.processes[place] = self._started(command)
            self.away.discard(command)
        return self.processes[place].pid

    def shown(self) -> str:
        """Returns the output of `dpctl/show -s`; raises RunError if ovs-vswitchd does not answer."""
        with closing(self.connect("ctl")) as control:
            return str(control.call("dpctl/show", ["-s", self._datapath]))

    def take_lost(self) -> int:
        """Returns the failed upcalls since the last call; raises RunError if ovs-vswitchd does not answer."""
        before, self.lost_upcalls = self.lost_upcalls, parse_lost(self.shown())
        earlier, self._lost_before = self._lost_before, 0
        return earlier + (0 if before is None else max(0, self.lost_upcalls - before))

    def has_handlers(self) -> bool:
        """Whether ovs-vswitchd has a thread that takes frames without a flow from the kernel datapath."""
        # A thread that is listed may end before it is read.
        with suppress(OSError):
            threads = Path(f"/proc/{self.processes[-1].pid}/task").glob("*/comm")
            if any(thread.read_text().startswith("handler") for thread in threads):
                return True
        if self.processes[-1].poll() is not None:
            raise RunError(f"{self.describe()} has ended: {self.last_words()}")
        return False

    def with_sockets(self, do: Callable[[int], _T]) -> _T:
        """Calls a function of `testbed.emulation.network.switch_sockets` for the sockets of the ports."""
        try:
            return do(self.processes[-1].pid)
        except OSError as error:
            raise RunError(f"{self.describe()} has ended: {error}") from error

    def connect(self, suffix: str) -> JsonRpc:
        """Connects to a daemon as soon as it listens."""
        connected: list[JsonRpc] = []

        def left() -> str | None:
            try:
                connected.append(JsonRpc(self.path(suffix), _ANSWER_S))
            except OSError as error:
                for process in self.processes:
                    if process.poll() is not None:
                        raise RunError(f"{self.describe()} ended: {self.last_words()}") from None
                return str(error)
            return None

        wait_until(left, _ANSWER_S, f"{self.describe()} answers", interval_s=0.005)
        return connected[0]

    def check(self, command: str) -> None:
        """Raises RunError if a process has ended, and no event killed it."""
        if command not in self.away and self.processes[_PLACES[command]].poll() is not None:
            raise RunError(f"{self.describe(command)} ended during the run: {self.last_words()}")

    def end(self) -> None:
        for process in self.processes:
            process.kill()

    def wait(self, deadline: float) -> None:
        """Waits until the processes have ended, if they were killed.

        Args:
            deadline: `time.monotonic` until which it waits.
        """
        while self.processes:
            self.processes[-1].wait(max(0.0, deadline - time.monotonic()))
            self.processes.pop()

    def describe(self, process: str = SWITCHES) -> str:
        nodes = list(self.ports)
        return f"{process} of the switches s{nodes[0]} to s{nodes[-1]}"

    def last_words(self) -> str:
        return last_line(*map(self.path, _PLACES))


class SwitchDaemons:
    """The daemons of a run; its methods raise RunError if a daemon has ended, or does not answer in time.

    Args:
        folder: for their sockets, databases and logs; also Open vSwitch's run folder (OVS_RUNDIR), in which
            the sockets of all bridges are. The controller's socket must be in it.
        groups: namespace and ports by node of each group.
        datapath: "kernel" or "user".
    """

    def __init__(
        self, folder: Path, groups: Iterable[tuple[str, Mapping[int, Sequence[int]]]], datapath: str
    ) -> None:
        self.folder = folder
        self._type, self._datapath = _TYPES[datapath]
        self._daemons = [
            Daemon(folder, number, *group, self._datapath) for number, group in enumerate(groups)
        ]
        self._bridges = sum(len(daemon.ports) for daemon in self._daemons)
        self._controller_socket = Path()

    @property
    def pids(self) -> list[int]:
        return [process.pid for daemon in self._daemons for process in daemon.processes]

    def wait_for_database(self, node: int) -> None:
        """Returns when the ovs-vswitchd of a switch works with its database again.

        Until then the userspace datapath forwards nothing: ovs-vswitchd looks at its ports only while it
        holds the lock of its database (`bridge_run` in its vswitchd/bridge.c), and frames wait in the ports'
        sockets.
        """
        self._configure(node)

    def remove_bridge(self, node: int) -> None:
        """Removes the bridge of a switch, with its rules and its connection; the devices stay, and the other
        bridges of the daemon.
        """
        self._configure(node, "del-br", switch_name(node))

    def add_bridge(self, node: int) -> None:
        """Makes the bridge of a switch that was removed, as `start` did."""
        self._configure(node, *_bridge(node, self.of(node).ports[node], self._type, self._controller_socket))

    def _configure(self, node: int, *words: str) -> None:
        """Changes the database of a switch; returns when its ovs-vswitchd has done what it says."""
        daemon = self.of(node)
        with closing(daemon.connect("sock")) as database:
            if words:
                daemon.configure(*words)
            _transact(database, _ASK)
            self._wait_configured(daemon, database)

    def of(self, node: int) -> Daemon:
        return next(daemon for daemon in self._daemons if node in daemon.ports)

    @property
    def controls(self) -> list[Path]:
        """The control sockets of the daemons that forward frames (`ovs-appctl`)."""
        return [daemon.path("ctl") for daemon in self._daemons]

    def start(self, controller_socket: Path) -> None:
        """Makes every bridge with its ports, connected to the controller."""
        self._controller_socket = controller_socket
        empty = self.folder / "empty.db"
        run(["ovsdb-tool", "create", str(empty), str(switch_schema())])
        for daemon in self._daemons:
            shutil.copyfile(empty, daemon.path("db"))
            daemon.start(DATABASE)
        if self._type == "system":
            time.sleep(max(0.0, _COUNTS_PROCESSORS_S - time.monotonic()))
        databases = []
        try:
            for daemon in self._daemons:
                databases.append(database := daemon.connect("sock"))
                bridges = (_bridge(*switch, self._type, controller_socket) for switch in daemon.ports.items())
                daemon.configure(*_SETTINGS, *chain.from_iterable(bridges))
                _transact(database, _ASK)
                daemon.start(SWITCHES)
            for daemon, database in zip(self._daemons, databases, strict=True):
                self._wait_configured(daemon, database)
        finally:
            for database in databases:
                database.close()

    def _wait_configured(self, daemon: Daemon, database: JsonRpc) -> None:
        timeout_s = _START_S + _START_PER_BRIDGE_S * self._bridges

        def left() -> str | None:
            if daemon.processes[-1].poll() is not None:
                raise RunError(f"{daemon.describe()} ended: {daemon.last_words()}")
            (row,) = _rows(database, "Open_vSwitch", "cur_cfg", "next_cfg")
            return None if row["cur_cfg"] == row["next_cfg"] else "not configured yet"

        wait_until(left, timeout_s, f"{daemon.describe()} has made its bridges")
        for row in _rows(database, "Interface", "name", "error", "ofport"):
            # A port without a number, -1 included, is not in use; an empty set stands for no value.
            if not isinstance(row["ofport"], int) or row["ofport"] < 0:
                reason = row["error"] if isinstance(row["error"], str) else daemon.last_words()
                raise RunError(f"Open vSwitch cannot use {row['name']}: {reason}")
        if self._type == "system":
            lossy = "the kernel would lose each frame without a flow"
            what = f"{daemon.describe()} has a handler thread"
            wait_until(lambda: None if daemon.has_handlers() else lossy, _HANDLERS_S, what)
            if daemon.lost_upcalls is None:  # what was lost while there was no handler is not counted
                daemon.lost_upcalls = parse_lost(daemon.shown())
        daemon.with_sockets(switch_sockets.grow)

    def check(self, command: str) -> None:
        """Raises RunError if a process of a daemon has ended; see `Daemon.check`.

        Without its ovsdb-server, the userspace datapath forwards nothing, and waits for it for ever.
        """
        for daemon in self._daemons:
            daemon.check(command)

    def counters(self) -> SwitchCounters:
        """Returns the counters of every port of every switch."""
        return parse_ports(daemon.shown() for daemon in self._daemons)

    def take_dropped(self) -> dict[int, SwitchDrops]:
        """Returns the frames that each switch with a bridge has dropped, by node.

        Counted since the last call are frames that found no room in the sockets of its ports (not with the
        kernel datapath, nor in some containers), and for the first node of each daemon of the kernel datapath
        those that the kernel could not hand over.
        """
        found: dict[int, SwitchDrops] = {}
        for daemon in self._daemons:
            ports = daemon.ports
            no_room = daemon.with_sockets(switch_sockets.take_dropped)
            lost = {min(ports): daemon.take_lost()} if self._type == "system" else {}
            with closing(daemon.connect("ctl")) as control:
                # Rules get the counts of the entries of the datapath when these leave it.
                control.call("revalidator/purge", [])
                bridges = set(str(control.call("ofproto/list", [])).split())
                for node in ports:
                    if (name := switch_name(node)) in bridges:
                        found[node] = drops = parse_drops(str(control.call("bridge/dump-flows", [name])))
                        devices = {port_device(node, port) for port in ports[node]} & no_room.keys()
                        if devices:
                            drops["no_room"] = sum(no_room[device] for device in devices)
                        if node in lost:
                            drops["lost_upcalls"] = lost[node]
        return found

    def stop(self) -> None:
        """Kills the daemons: all bridges end with them.

        May be called at any point, and more than once. All others have ended when an error is raised.
        """
        steps = Steps()
        for daemon in self._daemons:
            steps.run(daemon.describe(), daemon.end)
        deadline = time.monotonic() + _ENDS_S
        for daemon in self._daemons:
            steps.run(daemon.describe(), daemon.wait, deadline)
        steps.check()


def _transact(database: JsonRpc, operations: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Performs a transaction on a database of Open vSwitch.

    Raises:
        RunError: an operation failed.
    """
    results: list[dict[str, Any]] = database.call("transact", ["Open_vSwitch", *operations])
    for result in results:
        if result and "error" in result:
            raise RunError(f"Open vSwitch's database: {result['error']}: {result.get('details')}")
    return results


def _rows(database: JsonRpc, table: str, *columns: str) -> list[dict[str, Any]]:
    """Returns columns of every row of a table; raises as `_transact`."""
    select = {"op": "select", "table": table, "where": [], "columns": columns}
    rows: list[dict[str, Any]] = _transact(database, [select])[0]["rows"]
    return rows


def _bridge(node: int, ports: Sequence[int], bridge_type: str, controller_socket: Path) -> Iterator[str]:
    """Yields the commands of `ovs-vsctl` that make a switch."""
    name = switch_name(node)
    yield from ("--", "add-br", name, "--", "set", "bridge", name, f"datapath_type={bridge_type}")
    yield from ("fail_mode=secure", "protocols=OpenFlow13", "other_config:disable-in-band=true")
    yield f"other_config:datapath-id={datapath_id(node)}"
    yield from ("--", "set-controller", name, f"unix:{controller_socket}", "--", "set", "controller", name)
    yield from (f"max_backoff={_BACKOFF_MS}", f"inactivity_probe={_PROBE_MS}")
    for number in ports:
        device = port_device(node, number)
        yield from ("--", "add-port", name, device)
        yield from ("--", "set", "interface", device, f"ofport_request={number}")
