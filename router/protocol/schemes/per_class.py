"""Per-interface forwarding that keeps classes of receivers apart: `[routing] scheme = "pif-classes"`.

The table holds p_k for each class k of receivers (`class_table`), and a message of s is matched against the
classes that are beyond i on T_s, and no other (docs/adr/0021). There are as many predicates as with `pif`,
r (n - 1), since each receiver is of one class of every other router.

**RAs** are those of `pif`: a router knows the class of an issuer from its own table. The ingress filter keeps
classes apart already (`SubtreeFilter`).

**URs** keep classes apart (`frames.ClassifiedPredicate`), without a number of a class in them, which differ
between routers. Let x answer u, its parent on the tree of an SR. *The classes of x are at least as fine as
those of u*, for nodes r beyond x: u is below x on T_r, and subpaths agree, so the nodes below u on T_r are
those nodes below x on T_r that x reaches through u. Two nodes are in one class at u exactly if x's rows of
SUBTREES for their classes have the same classes behind the interface to u. So x unites its classes by that,
and names each union by one of its nodes, of which u knows the class.

**Safety.** The proofs of `SubtreeFilter` hold for each class by itself: an RA of r widens p_k of the class of
r at each router, a router drops it if RAs of the class of r cover it, and a UR replaces p_k by what the nodes
of class k have. The bound on F is one for each class: another class that has a predicate must not stand in
for the class of r. A UR says nothing of the classes that are not beyond the child on the tree of its SR; the
RAs of those do not go to the issuer by this router, and F of them is left as it is. In other epochs, whose
classes are other ones, F of the interface is forgotten: too small an F costs RAs, never receivers. Filters of
a UR that name no class, as the intake of a router makes them when it widens a predicate, are of every class.

**Learning.** A class is beyond a child as a whole or not at all, on every tree. A UR for another's SR
therefore says of each class that it is about what a UR to this router's own SR would say, and serves this
router on every graph; `pif` can use it only where the trees agree (section 3.5.4). In the same way a router
answers from its table if it has learnt every class that the SR asks for.

**Epochs.** The entries of a new epoch begin with those that held their nodes before, and every RA widens the
entries of all epochs: no receiver is lost that `pif` would find. Where a class has been divided, its parts
begin with the predicates of the whole class, until a UR replaces them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar

from router.predicates import Filter, Message, Predicate
from router.predicates.covering.algebra import PredicateBuilder
from router.predicates.covering.bitset import Bits, numbers_in
from router.protocol.advertising import SubtreeFilter
from router.protocol.broadcast import Branch, EpochTable
from router.protocol.context import Context
from router.protocol.counters import Drop
from router.protocol.events import Action
from router.protocol.pull.requests import ReplyRules
from router.protocol.routing import Report, RoutingTable
from router.protocol.schemes import Outputs, Row, TablePart
from router.protocol.schemes.class_table import ClassTable, EpochClasses
from router.protocol.schemes.per_interface import PerInterface
from router.wire.frames import ClassifiedPredicate, EncodedMessage, Frame, FrameType
from router.wire.header import LOCAL_INTERFACE


class ClassFilter(SubtreeFilter):
    """F by classes, which a UR bounds class by class."""

    def restrict_to(self, epoch: int, interface: int, report: Report) -> None:
        for held, branch in self.branches():
            if branch.parent != interface:
                continue
            if held != epoch:
                branch.advertised.clear()
            elif branch.subtree_id in report:
                self._restrict(branch, report[branch.subtree_id].members)


class PerClass(PerInterface):
    """B(source, i) intersected with F_C of the classes that are beyond i on the source's tree."""

    needs_subtrees: ClassVar[bool] = True
    ingress = ClassFilter

    def __init__(self, context: Context, routing: RoutingTable) -> None:
        self._classes = ClassTable(context, routing)
        super().__init__(context, routing)

    def reply_rules(self) -> ReplyRules:
        return ClassReplyRules(self.context, self.routing, self._classes)

    def widen(self, interface: int, issuer: int, predicate: Predicate) -> bool:  # noqa: ARG002
        self._classes.advertised(issuer, predicate)
        return True

    def outputs(self, branch: Branch, frame: Frame) -> Outputs:
        # The table of frames has checked the class of the body.
        body: Message | EncodedMessage = frame.body  # type: ignore[assignment]
        asked = self._classes.asked(frame.epoch, branch.subtree_id)
        matched = self.routing.match(body, among=asked.among)
        interfaces = [asked.interfaces[each] for each in matched if each != LOCAL_INTERFACE]
        return Outputs(frozenset(interfaces), LOCAL_INTERFACE in matched)

    def deciding_entries(self, table: EpochTable, branch: Branch) -> Sequence[tuple[int, int | None]] | None:
        interfaces = self._classes.asked(table.epoch, branch.subtree_id).interfaces
        return sorted((child, entry) for entry, child in interfaces.items())

    def epoch_changed(self, now: float, first: bool) -> list[Action]:  # noqa: ARG002
        self._classes.epoch_changed()
        return []

    def rows(self) -> Iterable[Row]:
        """A row for each class of the current epoch."""
        if self.routing.local:
            yield Row(LOCAL_INTERFACE, "", self.routing.local, TablePart.LOCAL)
        if self.context.tables.current is not None:
            yield from self._rows(self._classes.epoch(self.context.tables.current.epoch))

    def _rows(self, classes: EpochClasses) -> Iterator[Row]:
        subtrees, class_of = classes.table.subtrees, classes.table.class_of.tolist()
        assert subtrees is not None
        ordered = sorted(range(1, len(classes.entries)), key=lambda each: (classes.parents[each], each))
        for number, known in [(each, self.routing.copy_of(classes.entries[each])) for each in ordered]:
            interface, predicate = classes.parents[number], known.predicate
            if predicate and interface != LOCAL_INTERFACE:
                # By the symmetry of paths: below this router on the trees of the class.
                asking = subtrees[number - 1]
                sources = tuple([node for node, own in enumerate(class_of) if own and asking >> own & 1])
                scope = f"sources {' '.join(map(str, sources))}"
                yield Row(interface, scope, predicate, TablePart.FORWARDING, sources)


class ClassReplyRules(ReplyRules):
    """URs about classes: the parts of a report are the classes that the SR asks for."""

    def __init__(self, context: Context, routing: RoutingTable, classes: ClassTable) -> None:
        super().__init__(context, routing)
        self._context = context
        self._classes = classes

    def place(self, epoch: int, branch: Branch, interface: int, issuer: int) -> tuple[int, int] | None:  # noqa: ARG002
        if self.tables.get(epoch) is None:
            return None  # an SR of a retired epoch
        classes = self._classes.epoch(epoch)
        number = classes.class_of(issuer)
        child = classes.parents[number]
        asked = child in branch.on_tree and classes.table.below(branch.subtree_id, child) >> number & 1
        return (child, number) if asked else None

    def read(self, epoch: int, branch: Branch, child: int, reply: Predicate) -> Report:
        classes = self._classes.epoch(epoch)
        report = {number: self.content.builder() for number in self._asked(classes, branch, child)}
        parts = reply.parts() if isinstance(reply, ClassifiedPredicate) else [(None, reply)]
        for node, predicate in parts:
            if node is None:
                for known in report.values():
                    known.add(predicate)
            elif (number := classes.class_of(node)) in report:
                report[number].add(predicate)
            else:
                self._context.counters.drop(Drop.UR_CLASS)
        return report

    def apply_reply(self, interface: int, epoch: int, report: Report, partial: bool, now: float) -> bool:  # noqa: ARG002
        classes = self._classes.epoch(epoch)
        if self.widens(partial) or not self.current(epoch):
            for number, reported in report.items():
                self._classes.widen(epoch, number, reported.predicate)
            return False
        for number, reported in report.items():
            self._routing.replace(classes.entries[number], reported)
            self._applied[number] = epoch, now
        return True

    def assembled(self, epoch: int, branch: Branch, reports: Iterable[Report]) -> Predicate:
        classes = self._classes.epoch(epoch)
        united: dict[Bits, tuple[int, PredicateBuilder]] = {}
        own = classes.class_of(self._context.node)
        for report in ({own: self._routing.copy_of(LOCAL_INTERFACE)}, *reports):
            for number, reported in report.items():
                # Equal exactly for nodes that are in one class at the parent.
                key = classes.table.below(number, branch.parent)
                node, known = united.get(key, (classes.nodes[number], self.content.builder()))
                known.unite(reported)
                united[key] = min(node, classes.nodes[number]), known
        if self.content.reply_frame is not FrameType.UR:
            # A frame that has no place for classes: its filters are of nodes of any class.
            whole = self.content.builder()
            for _, known in united.values():
                whole.unite(known)
            return whole.predicate
        filters: list[Filter] = []
        found: list[tuple[int, int]] = []
        for node, known in sorted(united.values(), key=lambda each: each[0]):
            if len(known):
                found.append((node, len(filters)))
                filters += known.predicate.filters
        return ClassifiedPredicate(tuple(filters), tuple(found)) if found else self.content.nothing

    def learns(self, branch: Branch, child: int) -> bool:  # noqa: ARG002
        return self.options.ur_reuse

    def answer(self, epoch: int, branch: Branch, child: int, now: float) -> Report | None:
        if not self.options.ur_reuse:
            return None
        classes = self._classes.epoch(epoch)
        asked = self._asked(classes, branch, child)
        if not all(self.fresh(number, epoch, now) for number in asked):
            return None
        return {number: self._routing.copy_of(classes.entries[number]) for number in asked}

    def forget_dead_ends(self, children: Iterable[int]) -> None:
        """Nothing: the entries of an epoch are those of classes that have nodes."""

    def _asked(self, classes: EpochClasses, branch: Branch, child: int) -> list[int]:
        """The classes beyond a child of a branch."""
        return list(numbers_in(classes.table.below(branch.subtree_id, child)))
