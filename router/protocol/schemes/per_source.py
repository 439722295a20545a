"""Per-source forwarding: `[routing] scheme = "psf"`, and, with its sources grouped, `"ips"`.

Slides on routing, part III. Router u holds F_u(s, w) for each source s and child w of u on T_s: the
disjunction of the predicates of the nodes of w's subtree of T_s. A message of s goes to the children whose
F_u it matches. It crosses exactly the links of the paths from s to the nodes that it matches, and no other:
the scheme is minimal.

The controller says which nodes are in the subtrees (`frames.BroadcastTable.subtrees`), by classes of sources.
A receiver r is below u on T_s and reached through the child w exactly if the class of r is among the classes
of the subtree for the class of s, and u reaches r through w: subpaths agree, so w is u's parent on T_r.

The improved scheme (iPS; the slides give its name only) shares F_u between the sources for which the same
receivers are below (u, w): the exact quotient of PSF, hence as minimal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from router.predicates import Predicate
from router.predicates.covering.algebra import PredicateBuilder
from router.predicates.covering.bitset import numbers_in
from router.protocol.broadcast import Branch, EpochTable
from router.protocol.context import Context
from router.protocol.events import Action
from router.protocol.routing import RoutingTable
from router.protocol.schemes import Outputs, Row, TablePart
from router.protocol.schemes.identified import Identified
from router.wire.frames import Frame
from router.wire.header import LOCAL_INTERFACE


@dataclass(frozen=True, slots=True)
class _Entry:
    """An entry of the table: F_u for some sources and one child.

    Attributes:
        number: of the entry in the routing table and the matcher.
        classes: the classes of nodes below, as bits (1 << class).
    """

    number: int
    interface: int
    classes: int


@dataclass(frozen=True, slots=True)
class _OfSource:
    """The entries that messages of a source are matched against.

    Attributes:
        entries: by number.
        among: their numbers, and that of the local applications.
    """

    entries: dict[int, _Entry]
    among: frozenset[int]


@dataclass(slots=True)
class _Epoch:
    """The entries of one epoch, made when a message asks for them.

    Attributes:
        receivers: class -> the nodes of it that have a predicate.
        occupied: the classes that have receivers, as bits.
        entries: source and child, or child and classes of receivers -> entry.
        of_source: what `_entries_of` remembers.
        unions: classes, as bits -> the disjunction of the predicates of their nodes. Sources with the same
            receivers below a child share it.
    """

    table: EpochTable
    receivers: dict[int, set[int]] = field(default_factory=dict)
    occupied: int = 0
    entries: dict[tuple[int, int], _Entry] = field(default_factory=dict)
    of_source: dict[int, _OfSource] = field(default_factory=dict)
    unions: dict[int, PredicateBuilder] = field(default_factory=dict)

    def outdate(self, classes: int) -> None:
        """Forgets the disjunctions of sets that have one of some classes."""
        for each in [each for each in self.unions if each & classes]:
            del self.unions[each]


class PerSource(Identified):
    """F_u for each source, by child."""

    needs_subtrees: ClassVar[bool] = True
    #: Whether each source has entries of its own; otherwise sources share an entry for each set of receivers
    #: below a child.
    copies: ClassVar[bool]

    def __init__(self, context: Context, routing: RoutingTable) -> None:
        super().__init__(context, routing)
        self._epochs: dict[int, _Epoch] = {}
        #: Entries whose predicate is that of the RAs received, by number. Others are made when asked for.
        self._fresh: set[int] = set()

    def outputs(self, branch: Branch, frame: Frame) -> Outputs:
        table = self.context.tables.get(frame.epoch)
        assert table is not None
        asked = self._entries_of(self._epoch(table), frame.issuer, branch)
        matched = self.routing.match(self.context.content.message_in(frame), asked.among)
        interfaces = [asked.entries[each].interface for each in matched if each != LOCAL_INTERFACE]
        return Outputs(frozenset(interfaces), LOCAL_INTERFACE in matched)

    def epoch_changed(self, now: float, first: bool) -> list[Action]:
        actions = super().epoch_changed(now, first)
        for number in self._epochs.keys() - self.context.tables.epochs():
            for entry in self._epochs.pop(number).entries.values():
                self._forget(entry)
        return actions

    def predicate_changed(self, issuer: int, was: Predicate, now: Predicate) -> None:
        for epoch in self._epochs.values():
            branch = epoch.table.branch(issuer)
            if branch is not None:
                self._changed_below(epoch, issuer, branch.subtree_id, was, now)

    def _changed_below(self, epoch: _Epoch, issuer: int, number: int, was: Predicate, now: Predicate) -> None:
        receivers = epoch.receivers.setdefault(number, set())
        had_any = bool(receivers)
        (receivers.add if now else receivers.discard)(issuer)
        bit = 1 << number
        if bool(receivers) != had_any:
            epoch.occupied ^= bit
            # Entries are for sets of classes with receivers: one may become two, or two one.
            interface = epoch.table.classes.numbered(number).parent
            for key in [key for key, entry in epoch.entries.items() if entry.interface == interface]:
                self._forget(epoch.entries.pop(key))
            epoch.outdate(epoch.table.behind[interface])
            epoch.of_source.clear()
            return
        epoch.outdate(bit)
        for entry in epoch.entries.values():
            if entry.classes & bit:
                if was:
                    self._fresh.discard(entry.number)
                elif entry.number in self._fresh:
                    self.routing.widen(entry.number, now)

    def _epoch(self, table: EpochTable) -> _Epoch:
        known = self._epochs.get(table.epoch)
        if known is None:
            known = self._epochs[table.epoch] = _Epoch(table)
            for issuer, predicate in self.known.items():
                own = table.branch(issuer)
                if own is not None and predicate:
                    known.receivers.setdefault(own.subtree_id, set()).add(issuer)
                    known.occupied |= 1 << own.subtree_id
        return known

    def _entries_of(self, epoch: _Epoch, source: int, branch: Branch) -> _OfSource:
        """The entries for one source, with the predicates of the nodes below."""
        # Sources of one class have all entries in common, whatever is advertised.
        name = source if self.copies else branch.subtree_id
        found = epoch.of_source.get(name)
        if found is None:
            entries = {entry.number: entry for entry in self._of_source(epoch, source, branch)}
            found = _OfSource(entries, frozenset([LOCAL_INTERFACE, *entries]))
            epoch.of_source[name] = found
        if not self._fresh.issuperset(found.entries):
            for number in found.entries.keys() - self._fresh:
                self._fill(epoch, found.entries[number])
        return found

    def _of_source(self, epoch: _Epoch, source: int, branch: Branch) -> Iterator[_Entry]:
        """The entries for one source; those that are not there yet are made."""
        for interface, classes in self._below(epoch, branch):
            key = (source, interface) if self.copies else (interface, classes)
            entry = epoch.entries.get(key)
            if entry is None:
                entry = epoch.entries[key] = _Entry(self.routing.new_entry(), interface, classes)
            yield entry

    def _below(self, epoch: _Epoch, branch: Branch) -> Iterator[tuple[int, int]]:
        """The children beyond which there are receivers, each with the classes of those receivers."""
        for interface in sorted(branch.children):
            if classes := epoch.table.below(branch.subtree_id, interface) & epoch.occupied:
                yield interface, classes

    def _fill(self, epoch: _Epoch, entry: _Entry) -> None:
        """Makes the predicate of an entry of those of the nodes below."""
        shared = epoch.unions.get(entry.classes)
        if shared is None:
            shared = epoch.unions[entry.classes] = self._union(epoch, entry.classes)
        # An entry may be widened.
        self.routing.replace(entry.number, shared.copy())
        self._fresh.add(entry.number)

    def _union(self, epoch: _Epoch, classes: int) -> PredicateBuilder:
        """The disjunction of the predicates of the nodes of some classes."""
        made = self.context.content.builder()
        for number in numbers_in(classes):
            for issuer in sorted(epoch.receivers.get(number, ())):
                made.unite(self.held[issuer])
        return made

    def _forget(self, entry: _Entry) -> None:
        self.routing.free_entry(entry.number)
        self._fresh.discard(entry.number)

    def rows(self) -> Iterable[Row]:
        """The whole table, also what no message has asked for: a row for each child and set of receivers."""
        yield from self.rib_rows(TablePart.RIB)
        current = self.context.tables.current
        if current is None:
            return
        epoch = self._epoch(current)
        sources: dict[tuple[int, int], list[int]] = {}
        for source in range(current.class_of.size):
            branch = current.branch(source)
            if branch is not None:
                for interface, classes in self._below(epoch, branch):
                    sources.setdefault((interface, classes), []).append(source)
        for (interface, classes), group in sorted(sources.items(), key=lambda item: (item[0][0], item[1])):
            predicate = self._union(epoch, classes).predicate
            scope = f"sources {' '.join(map(str, group))}"
            yield Row(interface, scope, predicate, TablePart.FORWARDING, tuple(group), self.copies)


class PerSourceForwarding(PerSource):
    """PSF: an entry for each source and child."""

    copies: ClassVar[bool] = True


class ImprovedPerSource(PerSource):
    """iPS: an entry for each set of receivers below and child."""

    copies: ClassVar[bool] = False
