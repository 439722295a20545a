"""The changes of the predicates of applications, as a part of a router.

A small change of p0 is made in the turn of its event. A large one takes several turns, as the predicate of a
large RA does (`router.protocol.intake`). p0 is never widened, and stays as it was until the change is whole.
Changes are made in the order of their events.
"""

from __future__ import annotations

from collections import deque

from router.predicates.model import Predicate
from router.protocol.context import Context
from router.protocol.events import Action, PredicatePostponed, PredicateSet, Refused
from router.protocol.parts import Part
from router.protocol.services.applications import ApplicationPredicates, Steps


class PredicateChanges(Part):
    """Changes predicates of applications at once, or step by step.

    Args:
        context: of the router, whose parts are notified of a change of p0.
        predicates: what is changed.
    """

    def __init__(self, context: Context, predicates: ApplicationPredicates) -> None:
        self._context = context
        self._predicates = predicates
        #: Application and predicate of the changes that wait; `_steps` makes the first.
        self._waiting: deque[tuple[int, Predicate]] = deque()
        self._steps: Steps | None = None

    @property
    def idle(self) -> bool:
        """True if no change waits."""
        return not self._waiting

    @property
    def busy(self) -> bool:
        return bool(self._waiting)

    def set(self, app: int, predicate: Predicate, now: float) -> list[Action]:
        """Overwrites the predicate of an application.

        The actions contain `PredicatePostponed` if that takes further turns, or `Refused`.
        """
        if self._waiting or not self._predicates.is_small(app, predicate):
            self._waiting.append((app, predicate))
            return [PredicatePostponed(app)]
        try:
            changed = self._predicates.set(app, predicate)
        except ValueError as error:
            return [Refused(app, str(error))]
        return self._context.parts.local_changed(now) if changed else []

    def leave(self, app: int, now: float) -> list[Action]:
        """An application left: it gets no further message, and p0 loses its predicate."""
        self._predicates.leave(app)
        if self._waiting and self._waiting[0][0] == app:
            self._steps = None
        self._waiting = deque(change for change in self._waiting if change[0] != app)
        return self.set(app, self._context.content.nothing, now)

    def step(self, now: float) -> list[Action]:
        """Makes a step of the first change."""
        app, predicate = self._waiting[0]
        if self._steps is None:
            self._steps = self._predicates.change(app, predicate)
        try:
            next(self._steps)
        except StopIteration as end:
            self._done()
            return [PredicateSet(app), *(self._context.parts.local_changed(now) if end.value else ())]
        except ValueError as error:
            self._done()
            return [Refused(app, str(error))]
        return []

    def _done(self) -> None:
        self._waiting.popleft()
        self._steps = None
