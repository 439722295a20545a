"""The [[events]] of an experiment file: what happens at given times."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from testbed.config.errors import Problems
from testbed.config.model import TimedEvent
from testbed.config.schema import EVENT, EVENT_KEYS, read_fields
from topos.model import Topology


def read_events(
    problems: Problems, entries: object, topology: Topology | None, duration_s: float | None
) -> tuple[TimedEvent, ...]:
    """The valid events, sorted by time (the order of the file among equals).

    Nodes and links are checked if there is a topology, times if there is a duration.
    """
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        problems.add("events", "", "is not a list of tables; expected sections [[events]]")
        return ()
    events: list[tuple[str, TimedEvent]] = []
    for position, entry in enumerate(entries, 1):
        section = f"events {position}"
        before = len(problems)
        values = read_fields(problems, section, entry, EVENT)
        _check_keys(problems, section, entry, values)
        _check_place(problems, section, values, topology)
        _check_content(problems, section, values)
        at_s = values.get("at_s")
        if at_s is not None and duration_s is not None and at_s > duration_s:
            problems.add(
                section, "at_s", f"{at_s:g} is after the end; expected at most {duration_s:g} (duration_s)"
            )
        if len(problems) == before:
            events.append((section, TimedEvent(**values)))
    events.sort(key=lambda event: event[1].at_s)
    _check_subscriptions(problems, events)
    return tuple(event for _, event in events)


def _check_keys(problems: Problems, section: str, entry: dict[str, Any], values: dict[str, Any]) -> None:
    """An event has the keys of its action, and no other."""
    action = values.get("action")
    if action is None:
        return
    needed = EVENT_KEYS[action]
    for key in needed:
        if key not in entry:
            problems.add(section, key, f"missing; an event with action {action} needs {' and '.join(needed)}")
    for key in sorted(values.keys() - {"at_s", "action", *needed}):
        problems.add(section, key, f"has no meaning for action {action}; expected {' and '.join(needed)}")


def _check_place(problems: Problems, section: str, values: dict[str, Any], topology: Topology | None) -> None:
    if topology is None:
        return
    last = len(topology.nodes) - 1
    if values.get("node", 0) > last:
        problems.add(section, "node", f"there is no node {values['node']}; expected 0 to {last}")
    if "link" in values:
        u, v = values["link"]
        if not any({link.u, link.v} == {u, v} for link in topology.links):
            problems.add(section, "link", f"nodes {u} and {v} are not joined; expected the ends of a link")


def _check_subscriptions(problems: Problems, events: list[tuple[str, TimedEvent]]) -> None:
    """In order of time, a name is taken by subscribe and given back by unsubscribe."""
    in_force: set[tuple[int | None, str]] = set()
    for section, event in events:
        if event.subscription is None:
            continue
        key, where = (event.node, event.subscription), f"at node {event.node} at {event.at_s:g} s"
        if event.action == "subscribe" and key in in_force:
            problems.add(section, "subscription", f'"{event.subscription}" is in force {where} already')
        elif event.action == "unsubscribe" and key not in in_force:
            problems.add(section, "subscription", f'"{event.subscription}" is not in force {where}')
        (in_force.add if event.action == "subscribe" else in_force.discard)(key)


def _check_content(problems: Problems, section: str, values: dict[str, Any]) -> None:
    # Here, so that a file without such events loads without the predicate parser.
    from router.predicates.parser import parse_message, parse_predicate

    parsers: dict[str, Callable[[str], object]] = {"predicate": parse_predicate, "message": parse_message}
    for key, parse in parsers.items():
        if key in values:
            try:
                parse(values[key])
            except ValueError as error:
                problems.add(section, key, str(error))
