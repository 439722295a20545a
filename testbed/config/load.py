"""Reading an experiment file.

Everything that is wrong with it is reported together, one line each. A file holds the keys of
`testbed.config.schema`; without a [workload] section (or with `workload = false`) there is no workload.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from router.options import NAME_MAX_BYTES
from router.protocol.options import conflicts
from testbed.config import schema
from testbed.config.errors import ExperimentError, Problems
from testbed.config.events import read_events
from testbed.config.model import (
    BroadcastOptions,
    Experiment,
    OracleOptions,
    ProtocolOptions,
    RoutingOptions,
    ServiceOptions,
    WorkloadOptions,
)
from testbed.config.overrides import apply_overrides
from testbed.config.schema import read_fields
from testbed.config.topology import TOPOLOGY_WAYS, read_topology, with_link_defaults
from topos.suggest import unknown

__all__ = ["ExperimentError", "load_experiment"]

_DEFAULT_SEED = 1
#: Messages of a workload, or changes of predicates: each takes about a kilobyte.
_ITEMS_MAX = 10_000_000
_WORKLOAD_RANGES = ("filters", "constraints", "attributes")


def load_experiment(path: str | Path, overrides: Mapping[str, str] | None = None) -> Experiment:
    """Loads an experiment file.

    Args:
        path: the file; a topology file in it is looked up relative to its folder.
        overrides: values by dotted key, such as {"topology.nodes": "100", "duration_s": "600"}, each
            written as in TOML (what is not TOML, such as a bare word, is taken as a string).

    Returns:
        The experiment, events sorted by time. Unless given, `name` is that of the file, `seed` 1 and
        `time_scale` 1.

    Raises:
        ExperimentError: the file cannot be read or is not valid.
    """
    path = Path(path)
    overrides = overrides or {}
    problems = Problems(str(path), overrides)
    document = apply_overrides(problems, _read(path), overrides)
    problems.raise_if_any()

    top = {key: value for key, value in document.items() if key not in schema.SECTIONS}
    sections = _sections(problems, document)
    _refuse_unknown(problems, top)
    known = {field.key for field in schema.EXPERIMENT}
    values = read_fields(
        problems, "", {key: value for key, value in top.items() if key in known}, schema.EXPERIMENT
    )
    seed = values.get("seed", _DEFAULT_SEED)
    duration_s = values.get("duration_s")

    topology = None
    if "topology" in sections:
        topology = read_topology(problems, sections["topology"], path.parent, seed)
    elif "topology" not in document:
        problems.add("topology", "", f"missing; expected {TOPOLOGY_WAYS}")
    link_defaults = read_fields(problems, "links", sections.get("links", {}), schema.LINKS)
    broadcast = read_fields(problems, "broadcast", sections.get("broadcast", {}), schema.BROADCAST)
    routing = RoutingOptions(**read_fields(problems, "routing", sections.get("routing", {}), schema.ROUTING))
    service = ServiceOptions(**read_fields(problems, "service", sections.get("service", {}), schema.SERVICE))
    protocol = _protocol(problems, sections.get("protocol", {}), routing, service)
    oracle = read_fields(problems, "oracle", sections.get("oracle", {}), schema.ORACLE)
    workload = None
    if "workload" in sections:
        workload = _workload(problems, sections["workload"], duration_s)
        if topology is not None and duration_s is not None:
            _check_amount(problems, workload, len(topology.nodes), duration_s)
    events = read_events(problems, document.get("events", []), topology, duration_s)
    problems.raise_if_any()

    # Neither is missing, or there would have been a problem.
    assert topology is not None
    assert duration_s is not None
    return Experiment(
        name=values.get("name", _name_of(path)),
        seed=seed,
        duration_s=duration_s,
        time_scale=values.get("time_scale", 1.0),
        topology=with_link_defaults(topology, link_defaults),
        broadcast=BroadcastOptions(**broadcast),
        routing=routing,
        service=service,
        protocol=protocol,
        workload=workload,
        events=events,
        oracle=OracleOptions(**oracle),
        record=values.get("record", True),
    )


def _name_of(path: Path) -> str:
    """The name of the file as that of an experiment; what is not UTF-8 becomes `?`."""
    name = path.stem.lstrip(".")[:100].encode(errors="replace")[:NAME_MAX_BYTES]
    return name.decode(errors="ignore") or "experiment"


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
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
    for key in schema.SECTIONS:
        if key not in document or key == "events" or (key == "workload" and document[key] is False):
            continue
        if isinstance(document[key], dict):
            sections[key] = document[key]
        else:
            alternative = " or false" if key == "workload" else ""
            problems.add(key, "", f"is not a table; expected a section [{key}]{alternative}")
    return sections


def _refuse_unknown(problems: Problems, top: Mapping[str, object]) -> None:
    known = [*(field.key for field in schema.EXPERIMENT), *schema.SECTIONS]
    for key, value in top.items():
        if key not in known:
            problems.add("", "", unknown("section" if isinstance(value, dict) else "key", key, known))


def _protocol(
    problems: Problems, table: Mapping[str, object], routing: RoutingOptions, service: ServiceOptions
) -> ProtocolOptions:
    if "strict_paper" in table:
        problems.add(
            "protocol", "strict_paper", 'is no key any more; expected [routing] scheme = "pif-strict"'
        )
        table = {key: value for key, value in table.items() if key != "strict_paper"}
    options = ProtocolOptions(**read_fields(problems, "protocol", table, schema.PROTOCOL))
    found = conflicts(routing.scheme, service.kind, options.covering, options.sr_policy, options.max_filters)
    for key, text in found.items():
        problems.add("protocol", key, text)
    return options


def _workload(problems: Problems, table: Mapping[str, object], duration_s: float | None) -> WorkloadOptions:
    options = WorkloadOptions(**read_fields(problems, "workload", table, schema.WORKLOAD))
    for what in _WORKLOAD_RANGES:
        least, most = getattr(options, f"{what}_min"), getattr(options, f"{what}_max")
        if least > most:
            problems.add("workload", f"{what}_min", f"{least} is above {what}_max; expected at most {most}")
    if duration_s is not None and options.first_message_s > duration_s:
        problems.add(
            "workload",
            "first_message_s",
            f"{options.first_message_s:g} is after the end; expected at most {duration_s:g} (duration_s)",
        )
    return options


def _check_amount(problems: Problems, options: WorkloadOptions, nodes: int, duration_s: float) -> None:
    """Refuses a workload of more messages and changes than memory holds."""

    def share(of: float, percent: float) -> float:
        return max(of * percent / 100, 1.0) if percent > 0 else 0.0

    messages = share(nodes, options.senders_percent) * options.messages_per_minute / 60 * duration_s
    changing = share(share(nodes, options.receivers_percent), options.changing_receivers_percent)
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
