"""A workload: what applications ask for and send, and when; and its file, `workload.jsonl`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from router.predicates.model import Message, Value
from testbed.errors import InputError

Action = Literal["set_predicate", "subscribe", "unsubscribe", "send_message"]
#: What an item of each action says beside its time and node: all of this and nothing else.
_FIELDS: Mapping[Action, frozenset[str]] = {
    "set_predicate": frozenset({"predicate"}),
    "subscribe": frozenset({"predicate", "subscription"}),
    "unsubscribe": frozenset({"subscription"}),
    "send_message": frozenset({"attributes"}),
}


@dataclass(frozen=True)
class Item:
    """One request of the application on `node` at `at_s` experiment seconds.

    `predicate` (readable notation) belongs to set_predicate and subscribe, `subscription` (its name, on that
    node) to subscribe and unsubscribe, `attributes` to send_message; the others are None.
    """

    at_s: float
    node: int
    action: Action
    predicate: str | None = None
    attributes: Mapping[str, Value] | None = None
    subscription: str | None = None

    def __post_init__(self) -> None:
        expected = _FIELDS.get(self.action)
        if expected is None:
            raise ValueError(f"action {self.action!r}: expected {' or '.join(_FIELDS)}")
        given = {name for name in frozenset().union(*_FIELDS.values()) if getattr(self, name) is not None}
        if given != expected:
            raise ValueError(f"{self.action} at node {self.node}: expected {' and '.join(sorted(expected))}")


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
            fields = ("subscription", "predicate", "attributes")
            record |= {name: value for name in fields if (value := getattr(item, name)) is not None}
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
