"""The time to match a message at a router, and the memory of the engines, for the tables of a routing scheme.

The entries are those that a live router with the compiled engine has, made from the routing tables at the end
of a run: an entry for each row, with `psf` one for each row and source that sends. A message is matched
against the entries that the scheme allows for its source. With `drp` only the source's router matches the
predicates of other nodes.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from captures.rundir.routing_tables import TableRow, predicate_of
from router.matching.engines import Matcher, factory
from router.predicates.model import Message
from router.wire.header import LOCAL_INTERFACE
from testbed.controller.trees import Forest
from topos.model import Topology

_REPETITIONS = 3


@dataclass(slots=True)
class _Table:
    """The table of a router.

    Attributes:
        local: whether the local applications have a predicate; its entry is `LOCAL_INTERFACE`.
        of_interface: entry -> interface, of entries for the messages of all sources.
        of_source: source -> entries.
    """

    matcher: Matcher
    local: bool = False
    of_interface: dict[int, int] = field(default_factory=dict)
    of_source: dict[int, list[int]] = field(default_factory=dict)

    def among(self, source: int, children: Collection[int]) -> list[int]:
        """Returns the entries for a message of a source.

        Args:
            children: the interfaces to the children on the tree of the source.
        """
        chosen = [entry for entry, interface in self.of_interface.items() if interface in children]
        return [*([LOCAL_INTERFACE] if self.local else []), *chosen, *self.of_source.get(source, ())]


def _table(rows: Iterable[TableRow], senders: Collection[int]) -> _Table:
    table = _Table(factory("compiled"))
    entry = LOCAL_INTERFACE
    for row in rows:
        part, interface, sources = row.get("part", "forwarding"), row["interface"], row.get("sources")
        if part == "local":
            table.matcher.set_predicate(LOCAL_INTERFACE, predicate_of(row))
            table.local = True
        elif part == "forwarding" and sources is None and interface is not None:
            entry += 1
            table.matcher.set_predicate(entry, predicate_of(row))
            table.of_interface[entry] = interface
        elif part == "forwarding" and sources is not None:
            sending = [source for source in sources if source in senders]
            if not sending:
                continue
            groups = [[source] for source in sending] if row.get("copies") else [sending]
            predicate = predicate_of(row)
            for group in groups:
                entry += 1
                table.matcher.set_predicate(entry, predicate)
                for source in group:
                    table.of_source.setdefault(source, []).append(entry)
    return table


def matching_cost(
    tables: Mapping[int, Sequence[TableRow]],
    topology: Topology,
    forest: Forest,
    visits: Mapping[int, Sequence[tuple[int, Message]]],
    senders: Collection[int],
) -> tuple[float | None, int]:
    """Returns the mean time to match a message at a router (us, best of three), and the bytes of all engines.

    Args:
        visits: router -> the messages that came to it, each after its source.
        senders: the sources whose entries `psf` and the other schemes hold.
    """
    total_s, count, size = 0.0, 0, 0
    for node, rows in tables.items():
        table = _table(rows, senders)
        size += table.matcher.nbytes or 0
        neighbours = topology.neighbours(node)
        for source, message in visits.get(node, ()):
            parents = forest.parents[source]
            children = {port for port, neighbour in neighbours.items() if parents[neighbour] == node}
            total_s += _best_s(table.matcher, message, table.among(source, children))
            count += 1
    return (total_s / count * 1e6 if count else None), size


def _best_s(matcher: Matcher, message: Message, among: Sequence[int]) -> float:
    best = float("inf")
    for _ in range(_REPETITIONS):
        started = time.perf_counter()
        if among:
            matcher.match(message, among)
        best = min(best, time.perf_counter() - started)
    return best
