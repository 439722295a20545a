"""A workload: what applications ask for and send, and when; and its file, `workload.jsonl`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from router.predicates.model import Message, Value
from testbed.errors import InputError
from testbed.events.applications import ApplicationControl, ApplicationEvent
from testbed.events.catalogue import EVENTS

#: The fields of items that depend on the action.
_CONTENT = ("subscription", "predicate", "attributes")


@dataclass(frozen=True)
class Item:
    """One request of the application on `node` at `at_s` experiment seconds.

    `predicate` (readable notation) belongs to set_predicate and subscribe, `subscription` (its name, on that
    node) to subscribe and unsubscribe, `attributes` to send_message; the others are None.

    Raises:
        ValueError: the action is not one of an application, or the fields are not those that it carries.
    """

    at_s: float
    node: int
    action: str
    predicate: str | None = None
    attributes: Mapping[str, Value] | None = None
    subscription: str | None = None

    def __post_init__(self) -> None:
        if self.content.keys() != self.event.carries:
            expected = " and ".join(sorted(self.event.carries))
            raise ValueError(f"{self.action} at node {self.node}: expected {expected}")

    @property
    def event(self) -> type[ApplicationEvent]:
        """The class of its action.

        Raises:
            ValueError: there is none, or it is not that of an application.
        """
        event = EVENTS.get(self.action)
        if event is not None and issubclass(event, ApplicationEvent):
            return event
        known = (name for name, each in EVENTS.items() if issubclass(each, ApplicationEvent))
        raise ValueError(f"action {self.action!r}: expected {' or '.join(known)}")

    @property
    def content(self) -> dict[str, Any]:
        """The fields that belong to the action."""
        return {name: value for name in _CONTENT if (value := getattr(self, name)) is not None}

    def perform(self, applications: ApplicationControl) -> None:
        """Has the application of the node do it."""
        self.event.perform(applications, self.node, self.content)


@dataclass(frozen=True)
class Workload:
    """Items in order of time, and the nodes drawn as senders and receivers (ascending)."""

    items: tuple[Item, ...] = ()
    senders: tuple[int, ...] = ()
    receivers: tuple[int, ...] = ()

    @property
    def nodes(self) -> list[int]:
        """The nodes that take part, ascending."""
        return sorted({item.node for item in self.items})


def write_workload(workload: Workload, path: Path) -> None:
    """Writes the items as JSON lines (ARCHITECTURE.md, `workload.jsonl`)."""
    with path.open("w", encoding="utf-8") as out:
        for item in workload.items:
            record: dict[str, Any] = {"at_s": item.at_s, "node": item.node, "action": item.action}
            record |= item.content
            out.write(json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n")


def read_workload(path: Path) -> Workload:
    """Reads what `write_workload` wrote. Senders are the nodes that send, receivers those with a predicate.

    Raises:
        InputError: the file is missing or a line is malformed (names file and line).
    """
    items: list[Item] = []
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    # Not splitlines: it also breaks at characters such as U+2028 that JSON leaves as they are.
    for number, line in enumerate(text.split("\n"), start=1):
        if line:
            try:
                items.append(_item(json.loads(line)))
            except KeyError as error:
                raise InputError(f"{path}:{number}: no field {error}") from error
            except (ValueError, TypeError) as error:
                raise InputError(f"{path}:{number}: {error}") from error

    senders = sorted({item.node for item in items if item.attributes is not None})
    receivers = sorted({item.node for item in items if item.predicate is not None})
    return Workload(tuple(items), tuple(senders), tuple(receivers))


def _item(record: dict[str, Any]) -> Item:
    attributes = record.get("attributes")
    return Item(
        float(record["at_s"]),
        int(record["node"]),
        record["action"],
        record.get("predicate"),
        None if attributes is None else Message(attributes),
        record.get("subscription"),
    )
