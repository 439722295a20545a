"""The sections of an experiment file, and how the table of a section is read.

The keys of a section are the options of its dataclass (`testbed.experiments.config.model`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from router.options import Option, options_of
from testbed.experiments.config.errors import Problems
from testbed.experiments.config.model import (
    AttentionWorkload,
    BroadcastOptions,
    Experiment,
    LinkOptions,
    NetworkOptions,
    OracleOptions,
    PrivacyOptions,
    ProtocolOptions,
    RoutingOptions,
    SecurityOptions,
    ServiceOptions,
    WorkloadOptions,
)
from topos.suggest import unknown

#: The keys beside the sections.
TOP_LEVEL: tuple[Option, ...] = options_of(Experiment)
#: Section -> its dataclass, in the order of the documents; None: read by a module of its own (`topology` by
#: `testbed.experiments.config.topology`, `events`, an array of tables, by
#: `testbed.experiments.config.events`). The field of `Experiment` has the name after the last dot.
SECTIONS: Mapping[str, type | None] = {
    "topology": None,
    "links": LinkOptions,
    "broadcast": BroadcastOptions,
    "routing": RoutingOptions,
    "service": ServiceOptions,
    "protocol": ProtocolOptions,
    "privacy": PrivacyOptions,
    "security": SecurityOptions,
    "network": NetworkOptions,
    "workload": WorkloadOptions,
    "workload.attention": AttentionWorkload,
    "oracle": OracleOptions,
    "events": None,
}


def field_of(section: str) -> str:
    """The field of `Experiment` that holds a section."""
    return section.rpartition(".")[2]


def read_fields(
    problems: Problems, section: str, table: Mapping[str, object], options: Iterable[Option]
) -> dict[str, Any]:
    """The valid values of a table, by key; what is not valid, missing or unknown goes to `problems`."""
    known = {option.key: option for option in options}
    values: dict[str, Any] = {}
    for key, value in table.items():
        option = known.get(key)
        if option is None:
            problems.add(section, "", unknown("key", key, known))
            continue
        try:
            values[key] = option.convert(value)
        except ValueError as error:
            problems.add(section, key, str(error))
    for option in known.values():
        if option.required and option.key not in table:
            problems.add(section, option.key, f"missing; expected {option.expected}")
    return values
