"""Reading an experiment file, or a workload file of the protocol authors' simulator.

Everything that is wrong with it is reported together, one line each. A file holds the sections of
`testbed.experiments.config`; without a [workload] section (or with `workload = false`) there is no
workload.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from router.options import NAME_MAX_BYTES, options_of
from router.predicates.lexer import ParseError
from router.protocol.options import conflicts, privacy_conflict
from router.registry import PackageError
from testbed.experiments import drawing
from testbed.experiments.config import AUTO, NAMED, SECTIONS, TOP_LEVEL, Experiment, WorkloadOptions, field_of
from testbed.experiments.config.cbcbsim import is_script, read_script
from testbed.experiments.config.events import read_events
from testbed.experiments.config.schema import ExperimentError, Problems, read_fields, toml_value
from testbed.experiments.config.topology import (
    TOPOLOGY_WAYS,
    apply_overrides,
    parse_value,
    read_topology,
    shipped,
    with_link_defaults,
)
from testbed.experiments.drawing import Contents
from testbed.experiments.drawing.distributions import Distributions
from testbed.experiments.drawing.schema import Schema
from testbed.experiments.events import ApplicationEvent, Event
from testbed.experiments.events.network import at_worst, impaired
from testbed.experiments.events.parts import RouterRestart, check_switches
from testbed.support.errors import InputError
from topos import PROPERTIES, Topology, unknown
from topos.build import contradiction
from topos.loaders import SUFFIXES

__all__ = ["ExperimentError", "load_experiment"]

#: Messages of a workload, or changes of predicates: each takes about a kilobyte.
_ITEMS_MAX = 10_000_000


def load_experiment(
    path: str | Path, overrides: Mapping[str, str] | None = None, topology: Topology | None = None
) -> Experiment:
    """Loads an experiment file.

    Args:
        path: the file, of either form (`testbed.experiments.config.cbcbsim`); the files that it names are
            looked up relative to its folder.
        overrides: values by dotted key, such as {"topology.nodes": "100", "duration_s": "600"}, each
            written as in TOML (what is not TOML, such as a bare word, is taken as a string).
        topology: takes the place of that of the file.

    Returns:
        The experiment, events sorted by time. Unless given, `name` is that of the file.

    Raises:
        ExperimentError: the file cannot be read or is not valid.
    """
    path = Path(path)
    overrides = overrides or {}
    problems = Problems(str(path), overrides)
    document = apply_overrides(problems, _read(path), overrides)
    problems.raise_if_any()

    sections = _sections(problems, document)
    values = _top_level(problems, document)
    duration_s = values.get("duration_s")
    if topology is not None:
        pass  # the file's does not matter
    elif "topology" in sections:
        topology = read_topology(problems, sections["topology"], path.parent, values["seed"])
    elif "topology" not in document:
        problems.add("topology", "", f"missing; expected {TOPOLOGY_WAYS}")
    for name, options in SECTIONS.items():
        if options is not None and (name in sections or not name.startswith("workload")):
            table = sections.get(name, {})
            if options in NAMED:
                values[field_of(name)] = _named(problems, name, table, options, path.parent)
            else:
                values[field_of(name)] = options(**_read_options(problems, name, table, options, path.parent))
    links, workload = values.pop("links"), values.setdefault("workload", None)
    protocol, scheme = values["protocol"], values["routing"].scheme
    for key, text in conflicts(scheme, protocol.covering, protocol.sr_policy, protocol.max_filters).items():
        problems.add("protocol", key, text)
    _check_privacy(problems, values)
    if workload is not None:
        _check_workload(problems, workload, duration_s)
        if topology is not None and duration_s is not None:
            _check_amount(problems, workload, len(topology.nodes), duration_s)
    events = read_events(problems, document.get("events", []), topology, duration_s)
    _check_served(problems, values, events)
    for problem in check_switches(events):
        problems.add("events", "", problem)
    if topology is not None:
        topology = with_link_defaults(topology, links)
        _check_links(problems, topology, events)
        _check_auto(problems, values.get("time_scale"), at_worst(topology, events))
    problems.raise_if_any()

    # It is not missing, or there would have been a problem.
    assert topology is not None
    values["name"] = values["name"] or _name_of(path)
    return Experiment(**values, topology=topology, events=events)


#: Keys whose values name files or folders.
PATH_KEYS = frozenset(
    {
        "topology.file",
        *(
            f"{section}.{each.key}"
            for section, options in SECTIONS.items()
            if options is not None
            for each in options_of(options)
            if each.path
        ),
    }
)


def paths_from(folder: Path, overrides: Mapping[str, str]) -> dict[str, str]:
    """Returns overrides whose paths, relative to `folder`, are absolute: the experiment may be elsewhere."""
    found = dict(overrides)
    for key in PATH_KEYS & overrides.keys():
        path = parse_value(overrides[key])
        # The name of a topology may be that of a shipped one.
        if isinstance(path, str) and (key != "topology.file" or path.lower().endswith(SUFFIXES)):
            found[key] = toml_value(str((folder / path).resolve()))
    return found


def _check_links(problems: Problems, topology: Topology, events: Iterable[Event]) -> None:
    """Refuses properties of links that contradict each other, from the beginning or after an event."""
    for link in topology.links:
        if (problem := contradiction(link)) is not None:
            problems.add("links", "", f"link {link.u}-{link.v}: {problem}")
            return
    for problem in impaired(topology, events)[1]:
        problems.add("events", "", problem)


def _check_auto(problems: Problems, time_scale: object, topology: Topology) -> None:
    """Refuses a rate that changes where links have times of their own."""
    if time_scale != AUTO:
        return
    for link in topology.links:
        for key in PROPERTIES:
            if getattr(link, key):
                text = f'"auto" and {key} of link {link.u}-{link.v} exclude each other; expected a number'
                problems.add("", "time_scale", text)
                return


def _top_level(problems: Problems, document: Mapping[str, Any]) -> dict[str, Any]:
    """The values of the keys beside the sections; those that are not valid have their defaults."""
    table = {key: value for key, value in document.items() if key not in SECTIONS}
    known = [option.key for option in TOP_LEVEL]
    names = [*known, *(name for name in SECTIONS if "." not in name)]
    for key, value in table.items():
        if key not in known:
            problems.add("", "", unknown("section" if isinstance(value, dict) else "key", key, names))
    values = {option.key: option.default for option in TOP_LEVEL if not option.required}
    given = {key: value for key, value in table.items() if key in known}
    return values | read_fields(problems, "", given, TOP_LEVEL)


def _read_options(
    problems: Problems, section: str, table: Mapping[str, Any], options: type, folder: Path
) -> dict[str, Any]:
    """The valid values of a section; paths are relative to `folder`."""
    values = read_fields(problems, section, table, options_of(options))
    for option in options_of(options):
        if option.path and option.key in values:
            # The copy of the experiment in the run folder is read from another place.
            values[option.key] = str((folder / values[option.key]).resolve())
    return values


def _named(problems: Problems, section: str, table: Mapping[str, Any], options: type, folder: Path) -> Any:
    """The options of a section of `NAMED`."""
    own = options_of(options)
    key, registry = own[0].key, NAMED[options]
    chosen = read_fields(problems, section, {each: table[each] for each in table if each == key}, own)
    if key in table and not chosen:
        return options()  # The keys of an unknown entry cannot be checked.
    name = chosen.get(key, own[0].default)
    try:
        of_kind = registry[name].options
    except (PackageError, AttributeError) as error:
        problems.add(section, key, f"{name}: {error}")
        return options()
    others = {each: value for each, value in table.items() if each != key}
    return options(name, of_kind(**_read_options(problems, section, others, of_kind, folder)))


def _check_served(problems: Problems, values: Mapping[str, Any], events: Iterable[Event]) -> None:
    """Refuses a workload, and events of applications, that the service does not serve."""
    service, scheme = values["service"], values["routing"].scheme
    served = service.commands(values["protocol"].covering, scheme)
    missing = [command for command in ("set_predicate", "send_message") if command not in served]
    if values["workload"] is not None and missing:
        text = (
            f'"{service.kind}" has no {missing[0]}, which [workload] asks for; expected [workload.attention]'
        )
        problems.add("service", "kind", text)
    for event in events:
        if isinstance(event, ApplicationEvent) and event.action not in served:
            of = f'"{service.kind}", with the scheme "{scheme}",'
            text = f"{of} has no {event.action}, which an event at {event.at_s:g} s asks for"
            problems.add("service", "kind", text)
            return
        if isinstance(event, RouterRestart) and "set_predicate" not in served:
            text = f'"{service.kind}": its applications cannot ask again what a router that restarts has lost'
            problems.add("service", "kind", f"{text}; expected no router_restart")
            return


def _name_of(path: Path) -> str:
    """The name of the file as that of an experiment; a character that is not printable becomes `?`."""
    name = "".join(each if each.isprintable() else "?" for each in path.stem.lstrip(".-")[:100])
    return name.encode()[:NAME_MAX_BYTES].decode(errors="ignore") or "experiment"


def _read(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8-sig")
        return read_script(path.stem, text) if is_script(text) else tomllib.loads(text)
    except ParseError as error:
        raise ExperimentError([f"{path}: {error}"]) from error
    except OSError as error:
        raise ExperimentError([f"{path}: cannot be read: {error.strerror or error}"]) from error
    except UnicodeDecodeError as error:
        raise ExperimentError([f"{path}: is not UTF-8 text: {error}"]) from error
    except ValueError as error:
        # The message ends in "(at line 3, column 7)".
        raise ExperimentError([f"{path}: is not valid TOML: {error}"]) from error
    except RecursionError as error:
        raise ExperimentError([f"{path}: is nested too deeply"]) from error


def _sections(problems: Problems, document: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The sections that the document has and that are tables; not the events."""
    sections: dict[str, dict[str, Any]] = {}
    for key in SECTIONS:
        outer, dot, inner = key.rpartition(".")
        tables = sections.get(outer, {}) if dot else document
        if inner not in tables or key == "events" or (key == "workload" and document[key] is False):
            continue
        if isinstance(tables[inner], dict):
            sections[key] = tables[inner]
        else:
            alternative = " or false" if key == "workload" else ""
            problems.add(key, "", f"is not a table; expected a section [{key}]{alternative}")
        if dot:
            # The two workloads exclude each other.
            for name in sections.pop(outer):
                if name != inner:
                    text = f"and [{key}] exclude each other; expected one of the two workloads"
                    problems.add(outer, name, text)
    return sections


def _check_privacy(problems: Problems, values: Mapping[str, Any]) -> None:
    options, covering = values["privacy"], values["protocol"].covering
    conflict = privacy_conflict(options.mode, covering, values["service"].kind, values["routing"].scheme)
    if conflict is not None:
        problems.add("privacy", "mode", conflict)
    # The number of hashes in a key file is known when the file is read
    # (`testbed.experiments.workload.keys`).
    if options.kept_hashes > options.hashes and options.key_file is None:
        text = f"{options.kept_hashes}; expected at most `hashes`, {options.hashes}"
        problems.add("privacy", "kept_hashes", text)
    try:
        options.parameters  # noqa: B018 - it checks itself
    except ValueError as error:
        problems.add("privacy", "", str(error))


def contents_of(options: WorkloadOptions) -> Contents:
    """Returns what draws the messages and predicates of a workload.

    Raises:
        InputError: its file or folder cannot be used.
    """
    if options.schema is not None:
        share = options.selectivity_percent
        return Schema(Path(options.schema), None if share is None else share / 100)
    return drawing if options.distributions is None else Distributions(Path(options.distributions))


def _check_workload(problems: Problems, options: WorkloadOptions, duration_s: float | None) -> None:
    """Checks the files of a workload, and the keys that limit or exclude each other."""
    try:
        contents_of(options)
    except InputError as error:
        problems.add("workload", "distributions" if options.schema is None else "schema", str(error))
    if options.selectivity_percent is not None and options.schema is None:
        problems.add("workload", "selectivity_percent", "needs workload.schema; expected both, or neither")
    for one, other in (("schema", "distributions"), ("trace", "generator")):
        if getattr(options, one) is not None and getattr(options, other) is not None:
            problems.add("workload", one, f"and {other} exclude each other; expected one of them")
    for what in ("filters", "constraints", "attributes"):
        least, most = getattr(options, f"{what}_min"), getattr(options, f"{what}_max")
        if least > most:
            problems.add("workload", f"{what}_min", f"{least} is above {what}_max; expected at most {most}")
    for key in ("first_message_s", "first_predicate_s"):
        at_s = getattr(options, key)
        if duration_s is not None and at_s > duration_s:
            expected = f"expected at most {duration_s:g} (duration_s)"
            problems.add("workload", key, f"{at_s:g} is after the end; {expected}")


def _check_amount(problems: Problems, options: WorkloadOptions, nodes: int, duration_s: float) -> None:
    """Refuses a workload of more messages and changes than memory holds."""

    def share(of: float, percent: float) -> float:
        return max(of * percent / 100, 1.0) if percent > 0 else 0.0

    each = options.applications_per_node
    messages = each * share(nodes, options.senders_percent) * options.messages_per_minute / 60 * duration_s
    changing = each * share(share(nodes, options.receivers_percent), options.changing_receivers_percent)
    changes = changing * (duration_s / options.predicate_change_interval_s) if changing else 0.0
    for key, amount, what in (
        ("messages_per_minute", messages, "messages"),
        ("predicate_change_interval_s", changes, "changes of predicates"),
    ):
        if amount > _ITEMS_MAX:
            problems.add(
                "workload",
                key,
                f"{getattr(options, key):g} makes some {amount:.3g} {what} in {duration_s:g} s"
                f" at {nodes} nodes; expected at most {_ITEMS_MAX:,}",
            )


def find_experiment(name_or_path: str) -> Path:
    """The file of this path, or else the shipped experiment of this name.

    Raises:
        InputError: there is neither.
        OSError: the path may not be looked up, or its name is too long.
    """
    path = Path(name_or_path)
    if path.is_file():
        return path
    if name_or_path in shipped():
        return shipped()[name_or_path]
    if path.is_dir():
        raise InputError(f"{name_or_path}: is a folder; expected an experiment file")
    if path.suffix == ".toml" or len(path.parts) > 1:
        raise InputError(f"{name_or_path}: no such file")
    raise InputError(f"{name_or_path}: no such file; {unknown('experiment', name_or_path, shipped())}")
