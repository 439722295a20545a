"""The workload of a run: what applications ask for and send, and when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from captures.rundir.files import RunFolderError, read_lines, write_lines
from captures.rundir.layout import RunLayout
from captures.rundir.records import RunFile, check
from router.predicates.model import Message, Value

Action = Literal["set_predicate", "subscribe", "unsubscribe", "send_message"]
#: The fields of an item of each action, beside its time and node: all of these and nothing else.
_FIELDS: Mapping[Action, frozenset[str]] = {
    "set_predicate": frozenset({"predicate"}),
    "subscribe": frozenset({"predicate", "subscription"}),
    "unsubscribe": frozenset({"subscription"}),
    "send_message": frozenset({"attributes"}),
}


class WorkloadLine(TypedDict):
    """One item of the workload."""

    at_s: Annotated[float, "experiment second of the request"]
    node: Annotated[int, "node of the application"]
    action: Annotated[str, " or ".join(f"`{action}`" for action in _FIELDS)]
    subscription: NotRequired[
        Annotated[str, "of subscribe and unsubscribe: name of the subscription, unique at the node"]
    ]
    predicate: NotRequired[Annotated[str, "of set_predicate and subscribe: in the readable notation"]]
    attributes: NotRequired[Annotated[Mapping[str, Value], "of send_message: name of the attribute -> value"]]


@dataclass(frozen=True)
class Item:
    """One request of the application on `node` at `at_s` experiment seconds.

    `predicate` (readable notation) belongs to set_predicate and subscribe, `subscription` (its name, on that
    node) to subscribe and unsubscribe, `attributes` to send_message; the others are None.

    Raises:
        ValueError: the action is unknown, or its fields are not those that belong to it.
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


FILE = RunFile(
    lambda run: [run.workload],
    "The requests that the workload makes of the applications, in order of time, one a line.",
    (("", WorkloadLine),),
)


def read_workload(run: RunLayout) -> Workload:
    """Reads the workload; empty if the run has none.

    Senders are the nodes that send, receivers those with a predicate.

    Raises:
        RunFolderError: a line is malformed; names file and line.
    """
    if not run.workload.exists():
        return Workload()
    items = [_item(where, record) for where, record in read_lines(run.workload)]
    senders = sorted({item.node for item in items if item.attributes is not None})
    receivers = sorted({item.node for item in items if item.predicate is not None})
    return Workload(tuple(items), tuple(senders), tuple(receivers))


def write_workload(run: RunLayout, workload: Workload) -> None:
    """Writes the workload whole or not at all."""
    write_lines(run.workload, map(_line, workload.items), ascii_only=False)


def _line(item: Item) -> WorkloadLine:
    line = WorkloadLine(at_s=item.at_s, node=item.node, action=item.action)
    if item.subscription is not None:
        line["subscription"] = item.subscription
    if item.predicate is not None:
        line["predicate"] = item.predicate
    if item.attributes is not None:
        line["attributes"] = item.attributes
    return line


def _item(where: str, record: dict[str, Any]) -> Item:
    check(WorkloadLine, where, record)
    attributes = record.get("attributes")
    try:
        return Item(
            float(record["at_s"]),
            record["node"],
            record["action"],
            record.get("predicate"),
            None if attributes is None else Message(attributes),
            record.get("subscription"),
        )
    except (ValueError, TypeError) as error:
        raise RunFolderError(f"{where}: {error}") from error
