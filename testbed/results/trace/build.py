"""Construction of the trace of a message from its evidence.

The links that the message could take are in the tables of its epoch, as captured on their way to the routers.
The links that it took, and the times, are in the captures. The reason for a pruned link is the predicate p_i:
from the router's recording at that time, otherwise from the end of the run.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from captures.rundir.inputs import read_topology
from captures.rundir.layout import RunLayout
from captures.tables.query import Database
from router.predicates.encoded.algebra import union
from router.predicates.encoded.model import BloomPredicate
from router.predicates.lexer import ParseError
from router.predicates.model import Message, Predicate
from router.predicates.parser import parse_message, parse_predicate
from router.predicates.printer import format_predicate
from router.predicates.semantics import matches
from testbed.results.recordings import Decision, decision
from testbed.results.trace.evidence import Evidence, gather
from testbed.results.trace.find import Listed
from testbed.results.trace.model import Branch, Pruned, Stop, Trace


def trace(run: Path, database: Database, message: Listed, *, live: bool = False) -> Trace:
    """Returns the trace of a message.

    Args:
        database: the tables of the run (`captures.tables.query.connect`).
        live: whether the run goes on, and the routing tables are those of the moment.

    Raises:
        InputError: a router's recording is malformed.
        RunFolderError: the topology is missing or malformed.
    """
    evidence = gather(database, message)
    return _Builder(run, message, evidence, live).trace()


class _Builder:
    def __init__(self, run: Path, message: Listed, evidence: Evidence, live: bool) -> None:
        self.run = run
        self.live = live
        self.listed = message
        self.content: Message = parse_message(message.message)
        self.seen = evidence

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
                arrived_ns = self.seen.arrived.get((stop.node, branch.to))
                stops.append(Stop(branch.to, stop.node, stop.hop + 1, self._after(arrived_ns)))
        there = {stop.node for stop in stops if stop.arrived_s is not None}
        return Trace(
            source=source,
            seq=self.listed.seq % (1 << 64),
            number=self.listed.number,
            message=self.listed.message,
            sent_s=self.listed.sent_s,
            sent_ns=self.seen.sent_ns,
            epoch=self.seen.epoch,
            tree_known=bool(self.seen.tree),
            stops=stops,
            unreached={node: who for node, who in sorted(self.seen.receivers.items()) if node not in there},
            names={number: name for name, number in read_topology(RunLayout(self.run)).ids.items()},
            live=self.live,
        )

    def _fill(self, stop: Stop) -> None:
        """Fills in the fate of the message at a router."""
        if stop.arrived_s is None:
            return
        node = stop.node
        stop.receivers = self.seen.receivers.get(node, [])
        # A recording that is being written ends anywhere.
        seq = self.listed.seq % (1 << 64)
        found = None if self.live else decision(self.run, node, self.listed.source, seq)
        stop.recorded = found is not None
        stop.dropped = found.dropped if found is not None else None
        part = self.seen.tree.get(node)
        ways = part.children if part is not None else []
        known = {to for _, to in ways}
        # Links that the message crossed without an entry of a table.
        ways = [*ways, *((0, v) for u, v in self.seen.crossed if u == node and v not in known)]
        for interface, to in ways:
            sent = interface in self.seen.ports.get(node, ())
            crossed_ns, times = self.seen.crossed.get((node, to if to is not None else -1), (None, 0))
            pruned = None
            if not sent and crossed_ns is None:
                pruned = self._pruned(node, interface, to, found)
            off_tree = part is not None and to in part.off_tree
            stop.branches.append(
                Branch(interface, to, sent, self._after(crossed_ns), times, off_tree, pruned)
            )

    def _pruned(self, node: int, interface: int, to: int | None, found: Decision | None) -> Pruned:
        if found is not None:
            predicate = _union(row.predicate for row in found.table if row.interface == interface)
            known = "recording"
        elif self.seen.tables:
            texts = self.seen.tables.get((node, interface), ())
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
            part = self.seen.tree.get(one)
            if part is not None:
                found += [
                    v for _, v in part.children if v is not None and v not in (node, *part.off_tree, *found)
                ]
        return found

    def _after(self, t_ns: int | None) -> float | None:
        return None if t_ns is None else (t_ns - self.seen.sent_ns) / 1e9


def _union(predicates: Iterable[Predicate]) -> Predicate:
    """Returns all filters of the predicates, unchanged."""
    known = list(predicates)
    encoded = [each for each in known if isinstance(each, BloomPredicate)]
    if encoded:
        return union(*encoded)
    return Predicate(tuple(filter_ for predicate in known for filter_ in predicate))
