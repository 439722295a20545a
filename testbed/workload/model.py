"""A workload: what applications ask for and send, and when; and its file, `workload.jsonl`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from router.predicates.model import Message, Value
from testbed.errors import InputError

Action = Literal["set_predicate", "send_message"]


@dataclass(frozen=True)
class Item:
    """One request of the application on `node` at `at_s` experiment seconds.

    `predicate` (readable notation) belongs to set_predicate, `attributes` to send_message; the other is None.
    """

    at_s: float
    node: int
    action: Action
    predicate: str | None = None
    attributes: Mapping[str, Value] | None = None

    def __post_init__(self) -> None:
        if self.action not in ("set_predicate", "send_message"):
            raise ValueError(f"action {self.action!r}: expected set_predicate or send_message")
        given = (self.predicate is not None, self.attributes is not None)
        if given != (self.action == "set_predicate", self.action == "send_message"):
            raise ValueError(f"{self.action} at node {self.node}: expected predicate or attributes, not both")


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
            if item.predicate is not None:
                record["predicate"] = item.predicate
            else:
                record["attributes"] = item.attributes
            out.write(json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n")


def read_workload(path: Path) -> Workload:
    """Reads what `write_workload` wrote. Senders and receivers are the nodes that send, or set a predicate.

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

    def acting(action: Action) -> tuple[int, ...]:
        return tuple(sorted({item.node for item in items if item.action == action}))

    return Workload(tuple(items), senders=acting("send_message"), receivers=acting("set_predicate"))


def _item(record: dict[str, Any]) -> Item:
    attributes = record.get("attributes")
    return Item(
        float(record["at_s"]),
        int(record["node"]),
        record["action"],
        record.get("predicate"),
        None if attributes is None else Message(attributes),
    )
