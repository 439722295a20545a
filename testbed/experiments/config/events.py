"""The [[events]] of an experiment file: what happens at given times."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from router.options import Option, options_of
from router.predicates import Message
from router.registry import PackageError
from testbed.experiments.config.schema import Problems, read_fields
from testbed.experiments.events import ApplicationEvent, Event, NamedEvent, NamesInForce
from testbed.experiments.events.network import EVENTS
from testbed.support.errors import InputError
from testbed.support.names import node_id
from topos import Topology

#: The key that chooses the class of an event.
ACTION = Option("action", "string", choices=EVENTS, required=True, doc="Class of the event.")


def read_events(
    problems: Problems, entries: object, topology: Topology | None, duration_s: float | None
) -> tuple[Event, ...]:
    """The valid events, sorted by time (the order of the file among equals).

    Nodes and links are checked if there is a topology, times if there is a duration.
    """
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        problems.add("events", "", "is not a list of tables; expected sections [[events]]")
        return ()
    events: list[tuple[str, Event]] = []
    for position, entry in enumerate(entries, 1):
        section = f"events {position}"
        event = read_event(problems, section, entry, topology, duration_s)
        if event is not None:
            events.append((section, event))
    events.sort(key=lambda event: event[1].at_s)
    _check_subscriptions(problems, events)
    return tuple(event for _, event in events)


def _numbered(problems: Problems, section: str, key: str, value: object, topology: Topology | None) -> object:
    """Returns the value of a key that names a node, or several, with their ids."""

    def number(name: object) -> object:
        if not isinstance(name, str):
            return name
        try:
            return 0 if topology is None else node_id(name, topology)
        except InputError as error:
            problems.add(section, key, str(error))
            return 0

    return [number(each) for each in value] if isinstance(value, list) else number(value)


def read_event(
    problems: Problems,
    section: str,
    entry: Mapping[str, Any],
    topology: Topology | None,
    duration_s: float | None = None,
) -> Event | None:
    """The event of a table; None if its keys are not those of its action, or a value is not valid."""
    before = len(problems)
    found = read_keys(problems, section, entry, topology)
    if found is None:
        return None
    event = found[0](**found[1])
    check_event(problems, section, event, topology, duration_s)
    return event if len(problems) == before else None


def read_keys(
    problems: Problems,
    section: str,
    entry: Mapping[str, Any],
    topology: Topology | None,
    actions: Collection[str] = EVENTS,
    attributes: bool = False,
) -> tuple[type[Event], dict[str, Any]] | None:
    """The class of the event of a table, and the values of its keys; None if there is a problem with them.

    Args:
        attributes: an object `attributes` may be in the place of `message`; its value is a `Message`.
    """
    before = len(problems)
    table = dict(entry)
    given = {key: table.pop(key) for key in (ACTION.key,) if key in table}
    action = read_fields(problems, section, given, (replace(ACTION, choices=actions),)).get(ACTION.key)
    if action is None:
        return None
    values: dict[str, Any] = {}
    if EVENTS[action].action != action:
        raise PackageError(f"event {action!r}: the attribute `action` of {EVENTS[action].__name__} differs")
    declared = options_of(EVENTS[action])
    for each in declared:
        if each.node and each.key in table:
            table[each.key] = _numbered(problems, section, each.key, table[each.key], topology)
    if attributes and "attributes" in table and any(option.key == "message" for option in declared):
        declared = tuple(replace(each, required=each.required and each.key != "message") for each in declared)
        values |= _attributes(problems, section, table)
    values |= read_fields(problems, section, table, declared)
    return None if len(problems) > before else (EVENTS[action], values)


def _attributes(problems: Problems, section: str, table: dict[str, Any]) -> dict[str, Message]:
    """Takes the attributes out of a table, and returns them by their key; empty if they are not valid."""
    attributes = table.pop("attributes")
    if table.pop("message", None) is not None:
        problems.add(section, "attributes", "is given beside message; expected one of them")
    if not isinstance(attributes, Mapping):
        what = f"{attributes!r} is not valid; expected an object of names and values"
        problems.add(section, "attributes", what)
        return {}
    try:
        return {"attributes": Message(attributes)}
    except (ValueError, TypeError, AttributeError) as error:  # a name may be no text
        problems.add(section, "attributes", str(error))
        return {}


def check_event(
    problems: Problems, section: str, event: Event, topology: Topology | None, duration_s: float | None = None
) -> None:
    """Holds an event against the topology and the end of the experiment."""
    found = [] if topology is None else list(event.check(topology))
    if isinstance(event, ApplicationEvent):
        found += event.check_content()
    for key, what in found:
        problems.add(section, key, what)
    if duration_s is None:
        return
    for key, end_s in (("at_s", event.at_s), ("", event.ends_s)):
        if end_s > duration_s:
            what = f"{end_s:g} is after the end; expected at most {duration_s:g} (duration_s)"
            problems.add(section, key, what if key else f"the last part at {what}")
            return


def _check_subscriptions(problems: Problems, events: list[tuple[str, Event]]) -> None:
    names = NamesInForce()
    for section, event in events:
        if isinstance(event, NamedEvent):
            problem = names.follow(type(event), (event.node, event.app), event.subscription, event.at_s)
            if problem is not None:
                problems.add(section, "subscription", problem)
