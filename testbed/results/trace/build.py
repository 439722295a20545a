"""Construction of the trace of a message from its evidence in the tables of a run.

The links that the message could take are in the tables of its epoch, as captured on their way to the routers.
The links that it took, and the times, are in the captures. The reason for a pruned link is the predicate p_i:
from the router's recording at that time, otherwise from the end of the run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from captures.rundir import RunLayout
from captures.rundir.inputs import read_topology
from captures.tables.query import Database
from router.predicates import Message, Predicate, matches
from router.predicates.encoded import BloomPredicate
from router.predicates.encoded.algebra import union
from router.predicates.lexer import ParseError
from router.predicates.parser import parse_message, parse_predicate
from router.predicates.printer import format_predicate
from router.wire.header import ports_of
from testbed.results.recordings import Decision, decision
from testbed.results.trace import Branch, Listed, Pruned, Receiver, Stop, Trace


def trace(run: Path, database: Database, message: Listed, *, live: bool = False) -> Trace:
    """Returns the trace of a message.

    Args:
        database: the tables of the run (`captures.tables.query.connect`).
        live: whether the run goes on, and the routing tables are those of the moment.

    Raises:
        RecordingError: a router's recording is malformed.
        RunFolderError: the topology is missing or malformed.
    """
    return _Builder(run, database, message, live).trace()


class _Builder:
    """Reads the evidence on a message; times are in ns since 1970."""

    def __init__(self, run: Path, database: Database, message: Listed, live: bool) -> None:
        self.run = run
        self.live = live
        self.listed = message
        self.content: Message = parse_message(message.message)
        key = [message.source, message.seq]
        frames = "from frames where type = 'MSG' and undecodable is null and issuer = ? and seq = ?"
        #: Time of the application's request.
        self.sent_ns: int = database.execute(
            "select min(requested_ns) from applications "
            "where event = 'send_message' and source = ? and seq = ?",
            key,
        ).fetchall()[0][0]
        #: Epoch of its frames; None: no frame was captured.
        self.epoch: int | None = database.execute(f"select max(epoch) {frames}", key).fetchall()[0][0]
        #: Node -> interface and neighbour of its children in the source's tree of that epoch; empty if its
        #: TABLE frame was not captured. And (node, child), where the child is off the tree.
        self.children: dict[int, list[tuple[int, int | None]]] = {}
        self.off_tree: set[tuple[int, int | None]] = set()
        for node, interfaces, children, off_tree in database.execute(
            # Without a frame, the newest epoch, in which the source would have sent.
            "select node, child_interfaces, children, off_tree from trees "
            "where source = ? and epoch = coalesce(?, (select max(epoch) from trees))",
            [message.source, self.epoch],
        ).fetchall():
            self.children[node] = list(zip(interfaces, children, strict=True))
            self.off_tree |= {(node, child) for child in off_tree}
        #: Node -> interfaces that its frames named.
        self.ports: defaultdict[int, set[int]] = defaultdict(set)
        for node, destination in database.execute(
            f"select distinct node, destination {frames} and direction = 'from_router'", key
        ).fetchall():
            self.ports[node] |= ports_of(destination.to_bytes(6, "big"))
        #: (from, to) -> time of its first capture on that link, and number of captures of each frame.
        self.crossed: dict[tuple[int, int], tuple[int, int]] = {
            (u, v): (first_ns, times)
            for u, v, first_ns, times in database.execute(
                "select from_node, to_node, min(first_ns), max(times) from "
                "(select from_node, to_node, min(time_ns) first_ns, count(*) times "
                f"{frames} and kind = 'link' "
                "group by from_node, to_node, fragment_index) group by from_node, to_node",
                key,
            ).fetchall()
        }
        #: (from, to) -> time of its first capture on the way into router `to`.
        self.arrived: dict[tuple[int, int], int] = {
            (u, v): first_ns
            for u, v, first_ns in database.execute(
                f"select from_node, node, min(time_ns) {frames} and direction = 'to_router' "
                "group by from_node, node",
                key,
            ).fetchall()
        }
        self.receivers: defaultdict[int, list[Receiver]] = defaultdict(list)
        for node, app, first_ns, *rest in database.execute(
            "select coalesce(o.node, d.node), coalesce(o.app, d.app), d.first_ns, coalesce(d.times, 0), "
            "coalesce(o.expected, false), coalesce(o.decided, true) from "
            "(select * from oracle where source = ? and seq = ?) o full join "
            "(select node, app, min(t_ns) first_ns, count(*) times from applications "
            "where event = 'deliver' and source = ? and seq = ? group by node, app) d "
            "on o.node = d.node and o.app = d.app order by 1, 2",
            [*key, *key],
        ).fetchall():
            self.receivers[node].append(Receiver(app, self._after(first_ns), *rest))
        #: (node, interface) -> predicates of its rows at the end of the run.
        self.tables: dict[tuple[int, int], list[str]] = {
            (node, interface): predicates
            for node, interface, predicates in database.execute(
                "select node, interface, list(predicate order by scope) from routing_tables "
                "where interface is not null group by node, interface"
            ).fetchall()
        }

    def trace(self) -> Trace:
        source = self.listed.source
        stops = [Stop(source, None, 0, 0.0)]
        reached = {source}
        for stop in stops:  # the list grows in the loop
            self._fill(stop)
            for branch in stop.branches:
                if branch.to is None or branch.pruned is not None or branch.to in reached or branch.off_tree:
                    continue
                reached.add(branch.to)
                arrived_ns = self.arrived.get((stop.node, branch.to))
                stops.append(Stop(branch.to, stop.node, stop.hop + 1, self._after(arrived_ns)))
        there = {stop.node for stop in stops if stop.arrived_s is not None}
        return Trace(
            source=source,
            seq=self.listed.seq % (1 << 64),
            number=self.listed.number,
            message=self.listed.message,
            sent_s=self.listed.sent_s,
            sent_ns=self.sent_ns,
            epoch=self.epoch,
            tree_known=bool(self.children),
            stops=stops,
            unreached={node: who for node, who in sorted(self.receivers.items()) if node not in there},
            names={number: name for name, number in read_topology(RunLayout(self.run)).ids.items()},
            live=self.live,
        )

    def _fill(self, stop: Stop) -> None:
        """Fills in the fate of the message at a router."""
        if stop.arrived_s is None:
            return
        node = stop.node
        stop.receivers = self.receivers[node]
        # A recording that is being written ends anywhere.
        seq = self.listed.seq % (1 << 64)
        found = None if self.live else decision(self.run, node, self.listed.source, seq)
        stop.recorded = found is not None
        stop.dropped = found.dropped if found is not None else None
        ways = self.children.get(node, [])
        known = {to for _, to in ways}
        # Links that the message crossed without an entry of a table.
        ways = [*ways, *((0, v) for u, v in self.crossed if u == node and v not in known)]
        for interface, to in ways:
            sent = interface in self.ports[node]
            crossed_ns, times = self.crossed.get((node, to if to is not None else -1), (None, 0))
            pruned = None
            if not sent and crossed_ns is None:
                pruned = self._pruned(node, interface, to, found)
            off_tree = (node, to) in self.off_tree
            stop.branches.append(
                Branch(interface, to, sent, self._after(crossed_ns), times, off_tree, pruned)
            )

    def _pruned(self, node: int, interface: int, to: int | None, found: Decision | None) -> Pruned:
        if found is not None:
            predicate = _union(row.predicate for row in found.table if row.interface == interface)
            known = "recording"
        elif self.tables:
            texts = self.tables.get((node, interface), ())
            known = "now" if self.live else "end"
            try:
                predicate = _union(map(parse_predicate, texts))
            except ParseError:
                # A note in the place of an encoded predicate.
                return Pruned(" or ".join(texts), known, None, self._beyond(node, to))
        else:
            return Pruned(None, None, None, self._beyond(node, to))
        selects = matches(predicate, self.content) if predicate.unreadable is None else None
        return Pruned(format_predicate(predicate), known, selects, self._beyond(node, to))

    def _beyond(self, node: int, to: int | None) -> list[int]:
        """Returns the nodes of the tree from `to` on, away from `node`."""
        found: list[int] = [] if to is None else [to]
        for one in found:  # the list grows in the loop
            on_tree = [v for _, v in self.children.get(one, ()) if (one, v) not in self.off_tree]
            found += [v for v in on_tree if v is not None and v not in (node, *found)]
        return found

    def _after(self, t_ns: int | None) -> float | None:
        return None if t_ns is None else (t_ns - self.sent_ns) / 1e9


def _union(predicates: Iterable[Predicate]) -> Predicate:
    """Returns all filters of the predicates, unchanged."""
    known = list(predicates)
    encoded = [each for each in known if isinstance(each, BloomPredicate)]
    if encoded:
        return union(*encoded)
    return Predicate(tuple(filter_ for predicate in known for filter_ in predicate))
