"""The evidence on a message in the tables of a run."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from captures.tables.query import Database
from router.wire.addresses import ports_of
from testbed.results.trace.find import Listed
from testbed.results.trace.model import Receiver


@dataclass(frozen=True, slots=True)
class TreeNode:
    """A router's part in the source's tree: (interface, neighbour) of each child, and the children off the
    tree."""

    children: list[tuple[int, int | None]]
    off_tree: set[int]


@dataclass(frozen=True, slots=True)
class Evidence:
    """The evidence on a message; times in ns since 1970.

    Attributes:
        sent_ns: time of the application's request.
        epoch: epoch of its frames; None: no frame was captured.
        tree: node -> its part in the source's tree of that epoch; empty if its TABLE frame was not captured.
        ports: node -> interfaces that its frames named.
        crossed: (from, to) -> time of its first capture on that link, and number of captures of each frame.
        arrived: (from, to) -> time of its first capture on the way into router `to`.
        receivers: node -> applications.
        tables: (node, interface) -> predicates of its rows at the end of the run.
    """

    sent_ns: int
    epoch: int | None
    tree: dict[int, TreeNode]
    ports: dict[int, set[int]]
    crossed: dict[tuple[int, int], tuple[int, int]]
    arrived: dict[tuple[int, int], int]
    receivers: dict[int, list[Receiver]]
    tables: dict[tuple[int, int], list[str]]


def gather(database: Database, message: Listed) -> Evidence:
    """Reads the evidence from the tables of a run (`captures.tables.query.connect`)."""
    key = [message.source, message.seq]
    (sent_ns,) = database.execute(
        "select min(requested_ns) from applications where event = 'send_message' and source = ? and seq = ?",
        key,
    ).fetchall()[0]
    frames = "from frames where type = 'MSG' and undecodable is null and issuer = ? and seq = ?"
    epochs = database.execute(f"select max(epoch) {frames}", key).fetchall()
    epoch = epochs[0][0]
    return Evidence(
        sent_ns=sent_ns,
        epoch=epoch,
        tree=_tree(database, message.source, epoch),
        ports=_ports(database, frames, key),
        crossed={
            (u, v): (first_ns, times)
            for u, v, first_ns, times in database.execute(
                "select from_node, to_node, min(first_ns), max(times) from "
                "(select from_node, to_node, min(time_ns) first_ns, count(*) times "
                f"{frames} and kind = 'link' "
                "group by from_node, to_node, fragment_index) group by from_node, to_node",
                key,
            ).fetchall()
        },
        arrived={
            (u, v): first_ns
            for u, v, first_ns in database.execute(
                f"select from_node, node, min(time_ns) {frames} and direction = 'to_router' "
                "group by from_node, node",
                key,
            ).fetchall()
        },
        receivers=_receivers(database, key, sent_ns),
        tables={
            (node, interface): predicates
            for node, interface, predicates in database.execute(
                "select node, interface, list(predicate order by scope) from routing_tables "
                "where interface is not null group by node, interface"
            ).fetchall()
        },
    )


def _tree(database: Database, source: int, epoch: int | None) -> dict[int, TreeNode]:
    rows = database.execute(
        # Without a frame, the newest epoch, in which the source would have sent.
        "select node, child_interfaces, children, off_tree from trees "
        "where source = ? and epoch = coalesce(?, (select max(epoch) from trees))",
        [source, epoch],
    ).fetchall()
    return {
        node: TreeNode(list(zip(interfaces, children, strict=True)), set(off_tree))
        for node, interfaces, children, off_tree in rows
    }


def _ports(database: Database, frames: str, key: list[int]) -> dict[int, set[int]]:
    found: defaultdict[int, set[int]] = defaultdict(set)
    for node, destination in database.execute(
        f"select distinct node, destination {frames} and direction = 'from_router'", key
    ).fetchall():
        found[node] |= ports_of(destination.to_bytes(6, "big"))
    return found


def _receivers(database: Database, key: list[int], sent_ns: int) -> dict[int, list[Receiver]]:
    rows = database.execute(
        "select coalesce(o.node, d.node), coalesce(o.app, d.app), d.first_ns, coalesce(d.times, 0), "
        "coalesce(o.expected, false), coalesce(o.decided, true) from "
        "(select * from oracle where source = ? and seq = ?) o full join "
        "(select node, app, min(t_ns) first_ns, count(*) times from applications "
        "where event = 'deliver' and source = ? and seq = ? group by node, app) d "
        "on o.node = d.node and o.app = d.app order by 1, 2",
        [*key, *key],
    ).fetchall()
    found: defaultdict[int, list[Receiver]] = defaultdict(list)
    for node, app, first_ns, times, expected, decided in rows:
        delay_s = None if first_ns is None else (first_ns - sent_ns) / 1e9
        found[node].append(Receiver(app, delay_s, times, expected, decided))
    return found
