"""The service of the protocol paper: every application gets every message that its predicate selects.

Protocol paper, section 2, and the stateful layer of the INFOCOM paper's section II (`subscribe`,
`unsubscribe`), which is the session's: the core knows `set_predicate` alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import chain

from router.content import Content, shown
from router.predicates import Filter, Message, Predicate
from router.predicates.covering.algebra import PredicateBuilder
from router.predicates.printer import format_predicate
from router.protocol.context import Context
from router.protocol.events import Accepted, Action, ApplicationGone, Refused, SendMessage, SetPredicate
from router.protocol.options import RouterOptions
from router.protocol.routing import RoutingTable
from router.protocol.services import Answer, Command, Handle, Request, RequestError, Service, Session
from router.wire.header import LOCAL_INTERFACE


class Exhaustive(Service):
    """Predicates of applications make p0; a message goes to all whose predicate selects it.

    p0 grows at once. A large p0 is narrowed at the next `Tick`, which is due at once: p0 is united once, and
    makes one RA, however many applications leave before that. Until then p0 is wider than what applications
    ask for, which loses no receiver. A p0 beyond the bounds of an RA is widened, since every other router
    would widen it, for as long as the different filters of all applications are beyond them.
    """

    def __init__(self, context: Context, routing: RoutingTable) -> None:
        super().__init__(context, routing)
        self.predicates = ApplicationPredicates(routing, context.content, context.options)
        #: When p0 became wider than what applications ask for; None: it is not.
        self._wide_since: float | None = None

    @property
    def idle(self) -> bool:
        return self._wide_since is None

    def next_deadline(self) -> float | None:
        return self._wide_since

    def tick(self, now: float) -> list[Action]:
        """Narrows p0, if it is wider than it has to be."""
        self._wide_since = None
        if not self.predicates.wide:
            return []
        changed = self.predicates.narrow()
        self.context.counters.predicates_widened += self.predicates.exceed
        return self.context.parts.local_changed(now) if changed else []

    def set_predicate(self, event: SetPredicate, now: float) -> list[Action]:
        """An application declares what it asks for, in place of what it has declared."""
        try:
            changed = self.predicates.set(event.app, event.predicate)
        except ValueError as error:
            return [Refused(event.app, str(error))]
        if self.predicates.wide:
            # The RA waits for the `Tick`, and has the p0 of all changes until then.
            self._wide_since = now if self._wide_since is None else self._wide_since
            return []
        return self.context.parts.local_changed(now) if changed else []

    def application_gone(self, event: ApplicationGone, now: float) -> list[Action]:
        return self.set_predicate(SetPredicate(event.app, self.context.content.nothing), now)

    def receivers(self, message: Message) -> tuple[int, ...]:
        return self.predicates.selecting(message)

    @classmethod
    def session(cls, number: int, content: Content) -> Session:
        return ExhaustiveSession(number, content)


#: Different filters of all applications up to which p0 is united again at each departure: some milliseconds.
FEW_FILTERS = 100


class ApplicationPredicates:
    """The predicates of the applications of a node, and p0, their disjunction (section 3.3).

    Args:
        routing: the table that has p0.
        content: the form of predicates and messages.
        options: the bounds on predicates: what other routers take without widening it.
    """

    def __init__(self, routing: RoutingTable, content: Content, options: RouterOptions) -> None:
        self._routing = routing
        self._content = content
        self._options = options
        #: Application -> its predicate, which is not empty.
        self._predicates: dict[int, Predicate] = {}
        #: Filter -> the number of predicates that have it; the weight of these filters.
        self._filters: Counter[Filter] = Counter()
        self._weight = 0
        #: Whether p0 was widened to the bounds of an RA.
        self._widened = False
        #: p0 as it was before it became wider than the disjunction; None: it is not wider.
        self._before: PredicateBuilder | None = None

    @property
    def wide(self) -> bool:
        """Whether p0 may be wider than the disjunction, until `narrow` is called."""
        return self._before is not None

    @property
    def exceed(self) -> bool:
        """Whether the different filters of all predicates are beyond the bounds of an RA."""
        options = self._options
        return self._content.widens and (
            self._weight > options.predicate_weight or len(self._filters) > options.predicate_filters
        )

    def set(self, app: int, predicate: Predicate) -> bool:
        """Overwrites the predicate of an application; a large p0 grows by it, and is not narrowed.

        Returns:
            Whether p0 changed.

        Raises:
            ValueError: other routers would widen the predicate. Nothing has changed.
        """
        before = self._predicates.get(app, self._content.nothing)
        if before == predicate:
            return False
        self._check(predicate)
        if predicate:
            self._predicates[app] = predicate
        else:
            del self._predicates[app]
        fresh, gone = self._without(predicate, before), self._without(before, predicate)
        self._count(fresh, gone)
        narrower = not self.wide and gone and not self._content.builder(fresh).covers(gone)
        if narrower and len(self._filters) <= FEW_FILTERS and not self.exceed:
            return self._routing.replace(LOCAL_INTERFACE, self._disjunction())
        local = self._routing.copy_of(LOCAL_INTERFACE)
        grew = local.add(fresh)
        # A widened p0 stays as it is for as long as it has to be widened and covers what comes.
        if not self.wide and (narrower or self.exceed != self._widened or (self._widened and grew)):
            self._before = self._routing.copy_of(LOCAL_INTERFACE)
        return self._routing.replace(LOCAL_INTERFACE, local)

    def _count(self, fresh: Predicate, gone: Predicate) -> None:
        """Counts the filters that a predicate has gained and lost."""
        for filter_ in fresh:
            self._filters[filter_] += 1
            if self._filters[filter_] == 1:
                self._weight += self._content.weight_of(filter_)
        for filter_ in gone:
            self._filters[filter_] -= 1
            if not self._filters[filter_]:
                del self._filters[filter_]
                self._weight -= self._content.weight_of(filter_)

    def narrow(self) -> bool:
        """Makes p0 the disjunction again, if it is wider.

        Returns:
            Whether p0 is another than before it became wider.
        """
        before, self._before = self._before, None
        if before is None:
            return False
        local = self._disjunction()
        self._routing.replace(LOCAL_INTERFACE, local)
        return local.members != before.members

    def _disjunction(self) -> PredicateBuilder:
        """The disjunction of all predicates, widened to the bounds of an RA."""
        whole, options = self._content.builder(), self._options
        self._widened = self.exceed
        if self._widened:
            given = self._content.predicate(self._filters)
            bounds = options.filter_weight, options.predicate_weight, options.predicate_filters
            whole.add(self._content.within(given, *bounds)[0])
            return whole
        for each in self._predicates.values():
            whole.add(each)
        return whole

    def selecting(self, message: Message) -> tuple[int, ...]:
        """The applications whose own predicates select `message`."""
        selects = self._content.selects
        return tuple(app for app, predicate in self._predicates.items() if selects(predicate, message))

    def _check(self, predicate: Predicate) -> None:
        """Raises ValueError: other routers would widen the predicate."""
        options = self._options
        if not self._content.widens:
            return
        if len(predicate) > options.predicate_filters:
            most = options.predicate_filters
            raise ValueError(f"{len(predicate)} filters; at most {most} ([protocol] predicate_filters)")
        weights = list(map(self._content.weight_of, predicate))
        if self._content.cuts_filters and max(weights, default=0) > options.filter_weight:
            raise ValueError(
                f"a filter has the weight {max(weights)}; "
                f"at most {options.filter_weight} ([protocol] filter_weight)"
            )
        if sum(weights) > options.predicate_weight:
            raise ValueError(
                f"the predicate has the weight {sum(weights)}; "
                f"at most {options.predicate_weight} ([protocol] predicate_weight)"
            )

    def _without(self, predicate: Predicate, other: Predicate) -> Predicate:
        """The filters of `predicate` that `other` lacks, each once, in order."""
        known = set(other)
        return self._content.predicate(dict.fromkeys(each for each in predicate if each not in known))


class ExhaustiveSession(Session):
    """The commands `set_predicate`, `subscribe`, `unsubscribe`, `subscriptions` and `send_message`."""

    def __init__(self, number: int, content: Content) -> None:
        super().__init__(number, content)
        #: What was declared by `set_predicate`, under 0, and the subscriptions, under their numbers.
        self._predicates = {0: content.nothing}
        self._subscribed = 0

    def commands(self) -> Mapping[str, Command]:
        return {
            "set_predicate": self._set_predicate,
            "subscribe": self._subscribe,
            "unsubscribe": self._unsubscribe,
            "subscriptions": self._list,
            "send_message": self._send_message,
        }

    def _change(self, handle: Handle, predicates: dict[int, Predicate], **answer: int) -> Answer:
        """Gives the core the application's predicate; nothing changes if the core refuses it."""
        actions = list(handle(SetPredicate(self.number, any_of(self.content, predicates))))
        for action in actions:
            if isinstance(action, Refused):
                raise RequestError(action.reason)
        self._predicates = predicates
        return {"ok": True, **answer}, actions

    def _set_predicate(self, request: Request, handle: Handle) -> Answer:
        return self._change(handle, self._predicates | {0: self.content.requested_predicate(request)})

    def _subscribe(self, request: Request, handle: Handle) -> Answer:
        predicate = self.content.requested_predicate(request)
        self._subscribed += 1
        number = self._subscribed
        return self._change(handle, self._predicates | {number: predicate}, subscription=number)

    def _unsubscribe(self, request: Request, handle: Handle) -> Answer:
        left = dict(self._predicates)
        if "subscription" not in request:
            left = {0: left[0]}
        else:
            number = request["subscription"]
            # In JSON as in Python, true is no number.
            if type(number) is not int or number == 0 or number not in left:
                raise RequestError(f"subscription: {shown(number)} is none of this application's")
            del left[number]
        return self._change(handle, left)

    def _list(self, _request: Request, _handle: Handle) -> Answer:
        texts = {str(number): format_predicate(each) for number, each in self._predicates.items()}
        return {"ok": True, "predicate": texts.pop("0"), "subscriptions": texts}, ()

    def _send_message(self, request: Request, handle: Handle) -> Answer:
        actions = list(handle(SendMessage(self.number, self.content.requested_message(request))))
        for action in actions:
            if isinstance(action, Accepted):
                return {"ok": True, "source": action.source, "seq": action.seq}, actions
            if isinstance(action, Refused):
                raise RequestError(action.reason)
        raise AssertionError("the core neither accepted nor refused a message")


def any_of(content: Content, predicates: Mapping[int, Predicate]) -> Predicate:
    """The filters of all predicates of an application, as they were given; p0 is simplified by the router.

    INFOCOM paper, section II: a service layer lets each application build up its predicate by issuing and
    revoking subscriptions; the network only learns the whole.
    """
    first, *others = predicates.values()
    return content.predicate(chain(first, *others)) if others else first
