"""Workloads: the timed requests of applications."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from captures.rundir import RunLayout, inputs
from captures.rundir.files import RunFolderError
from captures.rundir.inputs import WorkloadLine
from router.predicates import Message, Value
from testbed.experiments.events import APPLICATION, ApplicationEvent, Place
from testbed.experiments.events.network import EVENTS

#: The fields of items that depend on the action.
CONTENT = ("subscription", "predicate", "attributes", "max", "lifetime_s", "freshness_s")


@dataclass(frozen=True)
class Item:
    """One request of the application `app` on `node` at `at_s` experiment seconds.

    `predicate` (readable notation) belongs to set_predicate, subscribe and register, `subscription` (its
    name, of that application) to subscribe, unsubscribe, register, refresh and unregister, `attributes` to
    send_message and publish, `max`, `lifetime_s` and `freshness_s` to register; the others are None.

    Raises:
        ValueError: the action is not that of an application, or the fields are not those of the action.
    """

    at_s: float
    node: int
    action: str
    predicate: str | None = None
    attributes: Mapping[str, Value] | None = None
    subscription: str | None = None
    max: int | None = None
    lifetime_s: float | None = None
    freshness_s: float | None = None
    app: str = APPLICATION

    def __post_init__(self) -> None:
        carries = self.event.carries()
        if self.content.keys() != carries:
            expected = " and ".join(sorted(carries))
            raise ValueError(f"{self.action} at node {self.node}: expected {expected}")

    @property
    def event(self) -> type[ApplicationEvent]:
        """Returns the class of the item's action.

        Raises:
            ValueError: the action is unknown, or is not that of an application.
        """
        event = EVENTS.get(self.action)
        if event is not None and issubclass(event, ApplicationEvent):
            return event
        known = (name for name, each in EVENTS.items() if issubclass(each, ApplicationEvent))
        raise ValueError(f"action {self.action!r}: expected {' or '.join(known)}")

    @property
    def content(self) -> dict[str, Any]:
        return {name: value for name in CONTENT if (value := getattr(self, name)) is not None}

    @property
    def line(self) -> WorkloadLine:
        app = {} if self.app == APPLICATION else {"app": self.app}
        line = {"at_s": self.at_s, "node": self.node, "action": self.action, **self.content, **app}
        return cast("WorkloadLine", line)

    @property
    def place(self) -> Place:
        return self.node, self.app

    def perform(self, applications: Any) -> None:
        """Calls the method of this action, of the simulation's `Applications`."""
        getattr(applications, self.action)(self.place, **self.content)


class Generated(Iterable[Item]):
    """Items in order of time that are generated at each iteration, and never all in memory."""

    def __init__(self, generate: Callable[[], Iterator[Item]]) -> None:
        self._generate = generate

    def __iter__(self) -> Iterator[Item]:
        return self._generate()


@dataclass(frozen=True)
class Workload:
    """Items in order of time, and the nodes drawn as senders and receivers (ascending)."""

    items: Iterable[Item] = ()
    senders: tuple[int, ...] = ()
    receivers: tuple[int, ...] = ()

    @property
    def applications(self) -> list[Place]:
        """Returns the participating applications, ascending by node and name."""
        return sorted({item.place for item in self.items})


def read_workload(run: RunLayout) -> Workload:
    """Reads the workload of a run; empty if the run has none.

    Senders are the nodes that send, receivers those with a predicate.

    Raises:
        RunFolderError: a line is malformed (names file and line).
    """
    items = [_item(where, line) for where, line in inputs.WORKLOAD.read(run)]
    senders = sorted({item.node for item in items if item.attributes is not None})
    receivers = sorted({item.node for item in items if item.predicate is not None})
    return Workload(tuple(items), tuple(senders), tuple(receivers))


def _item(where: str, line: WorkloadLine) -> Item:
    fields: dict[str, Any] = {**line}
    try:
        if "attributes" in fields:
            fields["attributes"] = Message(fields["attributes"])
        return Item(**fields)
    except (ValueError, TypeError) as error:
        raise RunFolderError(f"{where}: {error}") from error
