"""A run folder made by hand: three routers in a line, every frame known, every counter counted separately."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from captures.rundir import RunLayout
from captures.rundir.capture_list import CapturedFile, identities, write_captures
from captures.rundir.files import write_lines
from captures.rundir.inputs import MANIFEST, Manifest, write_topology
from captures.rundir.measures import ROUTERS
from router.predicates import Constraint, Filter, Message, Operator, Predicate, Type, Value
from router.records.json_file import write_json
from router.wire.codec import fragment
from router.wire.frames import Frame, FrameType, Hello, SenderRequest
from router.wire.header import (
    CONTROLLER_DESTINATION,
    CONTROLLER_SOURCE,
    HOST_PORT,
    ROUTER_DESTINATION,
    decode_header,
    node_address,
    port_addresses,
)
from tests.support.capture_files import pcap
from tests.support.tree_entries import TreeEntry, table_of
from topos import Link, Node, Topology

START_NS = 1_700_000_000_000_000_000
TIME_SCALE = 10.0
#: u, v, u_port, v_port of each link.
LINKS = ((0, 1, 1, 1), (1, 2, 2, 1))
NODES = (0, 1, 2)
_TOPOLOGY = Topology(
    "line",
    tuple(map(Node, NODES)),
    tuple(
        Link(u, v, index=index, u_port=u_port, v_port=v_port)
        for index, (u, v, u_port, v_port) in enumerate(LINKS)
    ),
)
#: Each node's part in the tree of every source, as the controller would send it.
TABLES = {
    0: table_of(((1, 1),), (TreeEntry(0, 0, (1,), 0), TreeEntry(1, 1, (), 0), TreeEntry(2, 1, (), 0))),
    1: table_of(
        ((1, 0), (2, 2)), (TreeEntry(0, 1, (2,), 0), TreeEntry(1, 0, (1, 2), 0), TreeEntry(2, 2, (1,), 0))
    ),
    2: table_of(((1, 1),), (TreeEntry(0, 1, (), 0), TreeEntry(1, 1, (), 0), TreeEntry(2, 0, (1,), 0))),
}
WIDE = Predicate((Filter((Constraint("price", Type.INTEGER, Operator.LT, 200),)),))
#: Incarnation with the highest bit set, so that numbers exceed a signed 64-bit integer.
SEQ = 0x8000_0001 << 32


def table_row(interface: int, predicate: str) -> dict[str, Any]:
    return {"interface": interface, "scope": "", "predicate": predicate}


class RunBuilder:
    """Plays frames through the line 0 - 1 - 2 and writes their captures, counters and logs."""

    def __init__(self) -> None:
        self.now_ns = START_NS
        self.pcaps: dict[str, list[tuple[int, bytes]]] = {
            **{f"link-{u}-{v}": [] for u, v, _, _ in LINKS},
            **{f"host-{node}": [] for node in NODES},
        }
        self.router: dict[int, dict[str, Any]] = {
            node: {
                "frames_received": Counter[str](),
                "frames_sent": Counter[str](),
                "socket_drops": 0,
                "messages_sent": 0,
                "messages_delivered": 0,
            }
            for node in NODES
        }
        self.ovs: dict[int, dict[int, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
        self.events: list[dict[str, Any]] = []
        self.oracle: list[dict[str, Any]] = []
        self.workload: list[dict[str, Any]] = []
        self.drops: Counter[str] = Counter()
        self.routing_tables = {
            "0": [table_row(1, "price < 200")],
            "1": [table_row(0, "price < 100"), table_row(2, "price < 100")],
        }

    def tick(self, ms: int = 1) -> int:
        self.now_ns += ms * 1_000_000
        return self.now_ns

    def hop(self, sender: int, receivers: Sequence[int], frame: Frame) -> None:
        """One router sends a frame to neighbours."""
        ports = {link[2 + side]: link[1 - side] for link in LINKS for side in (0, 1) if link[side] == sender}
        numbers = {node: port for port, node in ports.items()}
        (destination,) = port_addresses(numbers[node] for node in receivers)
        kind = frame.type.name
        for payload in fragment(frame):
            data = (destination + node_address(sender) + b"\x88\xb5" + payload).ljust(60, b"\0")
            self._record(f"host-{sender}", data)
            self.router[sender]["frames_sent"][kind] += 1
            self.ovs[sender][HOST_PORT]["rx_packets"] += 1
            for receiver in receivers:
                u, v = sorted((sender, receiver))
                self._record(f"link-{u}-{v}", data)
                self._record(f"host-{receiver}", data)
                self.router[receiver]["frames_received"][kind] += 1
                far = next(link for link in LINKS if link[:2] == (u, v))
                self.ovs[sender][numbers[receiver]]["tx_packets"] += 1
                self.ovs[receiver][far[2 if receiver == u else 3]]["rx_packets"] += 1
                self.ovs[receiver][HOST_PORT]["tx_packets"] += 1

    def set_up(self) -> None:
        for node in NODES:
            hello = Frame(FrameType.HELLO, node, 1, 0, 1, Hello(7))
            table = Frame(FrameType.TABLE, node, 1, 1, 1, TABLES[node])
            for frame, addresses, way, counter in (
                (hello, CONTROLLER_DESTINATION + node_address(node), "frames_sent", "rx_packets"),
                (table, ROUTER_DESTINATION + CONTROLLER_SOURCE, "frames_received", "tx_packets"),
            ):
                for payload in fragment(frame):
                    self._record(f"host-{node}", (addresses + b"\x88\xb5" + payload).ljust(60, b"\0"))
                    self.router[node][way][frame.type.name] += 1
                    self.ovs[node][HOST_PORT][counter] += 1

    def set_predicates(self) -> None:
        """All routers have their trees; nodes 1 and 2 set and advertise their predicates."""
        self.set_up()
        self.set_predicate(1)
        self.advertise(1, [(1, [0, 2])], seq=1)
        self.set_predicate(2)
        self.advertise(2, [(2, [1]), (1, [0])], seq=1)

    def set_predicate(self, node: int, at_s: float = 0.0) -> None:
        self.workload.append(
            {"at_s": at_s, "node": node, "action": "set_predicate", "predicate": "price < 100"}
        )
        requested = self.tick()
        self._event("set_predicate", node, requested_ns=requested, predicate="price < 100", late=True)

    def withdraw(self, node: int) -> None:
        requested = self.tick()
        self._event("set_predicate", node, requested_ns=requested, predicate="none", late=True)

    def advertise(self, issuer: int, path: Sequence[tuple[int, Sequence[int]]], seq: int) -> None:
        for sender, receivers in path:
            self.hop(sender, receivers, Frame(FrameType.RA, issuer, SEQ + seq, 1, 64, WIDE))

    def send(
        self, seq: int, price: int, path: Sequence[tuple[int, Sequence[int]]], text: str = "", **oracle: bool
    ) -> None:
        """Node 0 sends a message.

        `oracle` gives expected (and decided) for nodes 1 and 2 alike.
        """
        attributes: dict[str, Value] = {"price": price, "text": text}
        self.workload.append({"at_s": 0.0, "node": 0, "action": "send_message", "attributes": attributes})
        requested = self.tick()
        self._event(
            "send_message",
            0,
            source=0,
            seq=SEQ + seq,
            requested_ns=requested,
            attributes=attributes,
            late=True,
        )
        self.router[0]["messages_sent"] += 1
        frame = Frame(FrameType.MSG, 0, SEQ + seq, 1, 64, Message(attributes))
        for sender, receivers in path:
            self.hop(sender, receivers, frame)
        answer = {"expected": False, "decided": True, **oracle}
        if answer != {"expected": False, "decided": True}:
            for node in (1, 2):
                key = {
                    "source": 0,
                    "seq": SEQ + seq,
                    "sent_ns": requested,
                    "node": node,
                    "app": f"app-{node}",
                }
                self.oracle.append({**key, **answer})

    def deliver(self, seq: int, node: int) -> None:
        self.router[node]["messages_delivered"] += 1
        self._event("deliver", node, source=0, seq=SEQ + seq)

    def write(self, folder: Path) -> Path:
        run = RunLayout(folder)
        for part in (run.captures_folder, run.applications_folder, run.counters_folder):
            part.mkdir(parents=True)
        captures = []
        for identity in (each for each in identities(_TOPOLOGY) if each.name in self.pcaps):
            name, records = identity.name, self.pcaps[identity.name]
            run.capture(name).write_bytes(pcap(records))
            file = run.relative(run.capture(name))
            frames, drops = len(records), self.drops[name]
            captures.append(CapturedFile(identity, file, f"dev-{name}", frames, frames + drops, drops))
        write_topology(run, _TOPOLOGY)
        write_captures(run.captures, captures)
        evidence = [capture.file for capture in captures]
        evidence += [run.relative(run.applications_of(node)) for node in NODES]
        MANIFEST.write(run, Manifest(started_ns=START_NS, datapath="user", inputs={}, evidence=evidence))
        ROUTERS.write(run, self.router)
        counted = ("rx_packets", "tx_packets")
        write_json(
            run.switches_counters,
            {
                node: {port: {name: counts[name] for name in counted} for port, counts in ports.items()}
                for node, ports in self.ovs.items()
            },
        )
        write_json(run.routing_tables, self.routing_tables)
        write_lines(run.oracle, self.oracle)
        write_lines(run.workload, self.workload)
        piece = {"t_ns": START_NS + 1_000_000, "monotonic_ns": 0, "experiment_s": 0.0, "rate": TIME_SCALE}
        write_lines(run.clock, [piece])
        members, epoch = {"routers": len(NODES)}, {"t_ns": START_NS, "epoch": 1}
        hello = {"t_ns": START_NS, "event": "hello", "incarnation": 7, "restarted": False}
        controller_log = [
            *({**hello, "node": node} for node in NODES),
            {**epoch, **members, "event": "epoch_started", "down_links": [], "down_nodes": []},
            *({**epoch, "event": "table_acknowledged", "node": node} for node in NODES),
            {**epoch, **members, "event": "committed", "seconds": 0.5},
        ]
        write_lines(run.controller_log, controller_log)
        for node in NODES:
            write_lines(run.applications_of(node), [event for event in self.events if event["node"] == node])
        return folder

    def _event(self, event: str, node: int, *, late: bool = False, **fields: Any) -> None:
        t_ns = self.tick() if late else self.tick(0)
        self.events.append({"t_ns": t_ns, "node": node, "app": f"app-{node}", "event": event, **fields})

    def _record(self, capture: str, data: bytes) -> None:
        self.pcaps[capture].append((self.tick(0) + len(self.pcaps[capture]), data))


class SpacedRun(RunBuilder):
    """A run in which a millisecond passes before every captured frame."""

    def _record(self, capture: str, data: bytes) -> None:
        self.pcaps[capture].append((self.tick(), data))

    def request(self, issuer: int, path: Sequence[tuple[int, Sequence[int]]], number: int) -> None:
        for sender, receivers in path:
            self.hop(
                sender, receivers, Frame(FrameType.SR, issuer, SEQ + number, 1, 64, SenderRequest(1_000))
            )


def asked_run() -> SpacedRun:
    """Returns a run with an answer to every question of docs/reference/tables.md.

    Nodes 1 and 2 set a predicate; node 1 withdraws its own, without an RA. Node 0 sends message 1, that both
    receive, message 2, that node 1 drops, and message 3, that returns and crosses a link twice. It repeats
    an SR; node 2 issues a single SR.
    """
    run = SpacedRun()
    run.set_predicates()
    run.tick(100)
    run.send(1, 50, [(0, [1]), (1, [2])], expected=True)
    run.deliver(1, 1)
    run.deliver(1, 2)
    run.send(2, 150, [(0, [1])])
    run.send(3, 50, [(0, [1]), (1, [0]), (0, [1])])
    run.request(0, [(0, [1]), (1, [2])], number=4)
    run.tick(1_000)
    run.request(0, [(0, [1]), (1, [2])], number=5)
    run.request(2, [(2, [1])], number=1)
    run.withdraw(1)
    return run


def good_run() -> RunBuilder:
    """Returns a run whose verdict holds; test_engines.py has its numbers.

    Nodes 1 and 2 have the predicate price < 100 and advertise price < 200. Node 0 sends message 1 (selected
    by both predicates, two fragments a hop), 2 (neither selected nor advertised) and 3 (advertised, not
    selected).
    """
    run = RunBuilder()
    run.set_predicates()
    run.tick(100)
    run.send(1, 50, [(0, [1]), (1, [2])], text="x" * 2000, expected=True)
    run.deliver(1, 1)
    run.deliver(1, 2)
    run.tick(100)
    run.send(2, 500, [])
    run.send(3, 150, [(0, [1])])
    return run


def faulty_run() -> RunBuilder:
    """Returns a run with deliveries that are wrong in each way, and captures with gaps.

    Message 1 is delivered twice at node 2, and to a second application at node 1; one of its fragments is
    missing at node 2. Message 3 is delivered where nobody asked for it, and at its own node. Message 4
    crosses a link twice; its deliveries are not decided, and that of node 1 is lost. Message 5 is first seen
    behind node 1, message 6 goes round between nodes 1 and 2, and message 7 is missed. A frame is damaged.
    """
    run = good_run()
    run.deliver(1, 2)
    run.deliver(3, 1)
    run.deliver(3, 0)
    run.send(4, 150, [(0, [1]), (0, [1])], expected=True, decided=False)
    run.deliver(4, 2)
    run.deliver(4, 1)
    run.events[-1]["event"] = "lose"
    run.events.append({**next(each for each in run.events if each["event"] == "deliver"), "app": "other"})
    run.send(5, 50, [(1, [2])])
    run.send(6, 50, [(1, [2]), (2, [1])])
    run.send(7, 50, [], expected=True)
    of_message = [
        place
        for place, (_, data) in enumerate(run.pcaps["host-2"])
        if decode_header(data[14:]).type is FrameType.MSG
    ]
    del run.pcaps["host-2"][of_message[0]]
    time_ns, data = run.pcaps["link-0-1"][0]
    run.pcaps["link-0-1"][0] = (time_ns, data[:14] + b"\x09" + data[15:])
    return run
