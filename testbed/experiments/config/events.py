"""The [[events]] of an experiment file: what happens at given times."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from router.options import Option, options_of
from router.predicates import Message
from testbed.experiments.config.schema import Problems, read_fields
from testbed.experiments.events import ApplicationEvent, Event, NamedEvent, NamesInForce
from testbed.experiments.events.network import EVENTS
from topos import Topology, unknown

#: The keys of all events.
_COMMON = {option.key for option in options_of(Event)}


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


def _numbered(
    problems: Problems, section: str, entry: Mapping[str, Any], topology: Topology | None
) -> dict[str, Any]:
    """Returns the table of an event with the ids of nodes that it names."""
    ids = {} if topology is None else topology.ids

    def number(key: str, name: object) -> object:
        if not isinstance(name, str):
            return name
        if name not in ids and topology is not None:
            nodes = ids or (f"a number, 0 to {len(topology.nodes) - 1}",)
            problems.add(section, key, unknown("node", name, nodes))
        return ids.get(name, 0)

    found = dict(entry)
    if "node" in entry:
        found["node"] = number("node", entry["node"])
    if isinstance(entry.get("link"), list):
        found["link"] = [number("link", end) for end in entry["link"]]
    return found


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

    Without a valid action, the keys that all events have are checked.

    Args:
        attributes: an object `attributes` may be in the place of `message`; its value is a `Message`.
    """
    before = len(problems)
    table = _numbered(problems, section, entry, topology)
    choice = Option("action", "string", choices=actions, required=True)
    given = {key: table.pop(key) for key in ("action",) if key in table}
    action = read_fields(problems, section, given, (choice,)).get("action")
    declared = _options(Event if action is None else EVENTS[action])
    keys = {option.key for option in declared}
    if attributes and "message" in keys:
        keys.add("attributes")
    foreign = table.keys() - keys
    if foreign:
        elsewhere = _keys_of(EVENTS, attributes)
        known = _keys_of(actions, attributes) if action is None else keys
        for key in sorted(foreign - elsewhere):
            problems.add(section, "", unknown("key", key, {"action", *known}))
        foreign &= elsewhere
    if action is not None:
        needed = [option.key for option in options_of(EVENTS[action]) if option.required]
        needed = [key for key in needed if key not in _COMMON]
        needs = " and ".join(needed) + (" (or attributes)" if "attributes" in keys else "")
        for key in needed:
            if key not in table and not (key == "message" and "attributes" in keys & table.keys()):
                problems.add(section, key, f"missing; an event with action {action} needs {needs}")
        for key in sorted(foreign):
            problems.add(section, key, f"has no meaning for action {action}; expected {needs}")
    own = {option.key: table[option.key] for option in declared if option.key in table}
    values = read_fields(problems, section, own, declared)
    if "attributes" in keys and "attributes" in table:
        values |= _attributes(problems, section, table)
    return None if action is None or len(problems) > before else (EVENTS[action], values)


def _keys_of(actions: Iterable[str], attributes: bool) -> set[str]:
    found = {option.key for action in actions for option in options_of(EVENTS[action])}
    return found | {"attributes"} if attributes and "message" in found else found


def _attributes(problems: Problems, section: str, table: Mapping[str, Any]) -> dict[str, Message]:
    """Returns the attributes of a table, by their key; empty if they are not valid."""
    attributes = table["attributes"]
    if "message" in table:
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


@cache
def _options(event: type[Event]) -> list[Option]:
    """The options of an event; a missing key that not all events have is reported apart."""
    return [replace(option, required=option.key in _COMMON) for option in options_of(event)]


def check_event(
    problems: Problems,
    section: str,
    event: Event,
    topology: Topology | None,
    duration_s: float | None = None,
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
    """Checks the names of subscriptions, in order of time."""
    names = NamesInForce()
    for section, event in events:
        if isinstance(event, NamedEvent):
            problem = names.follow(type(event), (event.node, event.app), event.subscription, event.at_s)
            if problem is not None:
                problems.add(section, "subscription", problem)
