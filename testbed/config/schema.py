"""What an experiment file may hold: each key of each section, its type and its range.

Defaults are those of the dataclasses in `testbed.config.model`; they are not repeated here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from router.content.registry import CONTENTS
from router.matching.factory import ENGINES
from router.options import Option as Field
from router.protocol.registries import SCHEMES, SERVICES
from testbed.config.errors import Problems
from testbed.config.model import BroadcastLayer, SenderRequestPolicy
from testbed.events.event import SECONDS_MAX
from topos.suggest import unknown

#: A wall second of a day: more says nothing about a network. The least keeps wall seconds finite.
_TIME_SCALE_MIN = 1e-6
_TIME_SCALE_MAX = 86_400
#: Each is drawn for every predicate.
_FILTERS_MAX = 10_000

EXPERIMENT: tuple[Field, ...] = (
    Field("name", "string", file_name=True),
    Field("seed", "integer", 0),
    Field("duration_s", "number", 0, SECONDS_MAX, above_low=True, required=True),
    Field("time_scale", "number", _TIME_SCALE_MIN, _TIME_SCALE_MAX),
    Field("record", "boolean"),
)
LINKS: tuple[Field, ...] = (
    Field("bandwidth_mbps", "number", 0, above_low=True),
    Field("delay_ms", "number", 0),
    Field("loss_percent", "number", 0, 100),
)
BROADCAST: tuple[Field, ...] = (Field("layer", "string", choices=get_args(BroadcastLayer)),)
ROUTING: tuple[Field, ...] = (Field("scheme", "string", choices=SCHEMES),)
SERVICE: tuple[Field, ...] = (Field("kind", "string", choices=SERVICES),)
PROTOCOL: tuple[Field, ...] = (
    Field("ra_on_change", "boolean"),
    Field("ra_period_s", "number", 0, SECONDS_MAX, above_low=True),
    Field("hop_limit", "integer", 1, 255),
    Field("ra_min_interval_s", "number", 0, SECONDS_MAX),
    Field("ra_jitter_s", "number", 0, SECONDS_MAX),
    Field("sr_policy", "string", choices=get_args(SenderRequestPolicy)),
    Field("sr_period_s", "number", 0, SECONDS_MAX, above_low=True),
    Field("sr_threshold", "integer", 0),
    Field("sr_min_interval_s", "number", 0, SECONDS_MAX),
    Field("sr_timeout_s", "number", 0, SECONDS_MAX, above_low=True),
    Field("ur_reuse", "boolean"),
    Field("ur_freshness_s", "number", 0, SECONDS_MAX),
    Field("max_filters", "integer", 1),
    Field("covering", "string", choices=CONTENTS),
    Field("matcher", "string", choices=ENGINES),
)
WORKLOAD: tuple[Field, ...] = (
    Field("senders_percent", "number", 0, 100),
    Field("receivers_percent", "number", 0, 100),
    Field("messages_per_minute", "number", 0, above_low=True),
    Field("changing_receivers_percent", "number", 0, 100),
    Field("predicate_change_interval_s", "number", 0, SECONDS_MAX, above_low=True),
    Field("first_message_s", "number", 0, SECONDS_MAX),
    Field("filters_min", "integer", 1, _FILTERS_MAX),
    Field("filters_max", "integer", 1, _FILTERS_MAX),
    Field("constraints_min", "integer", 1),
    Field("constraints_max", "integer", 1),
    Field("attributes_min", "integer", 1),
    Field("attributes_max", "integer", 1),
)
ORACLE: tuple[Field, ...] = (Field("in_flight_window_s", "number", 0, SECONDS_MAX),)
#: The sections of an experiment file; `events` is an array of tables.
SECTIONS: tuple[str, ...] = (
    "topology",
    "links",
    "broadcast",
    "routing",
    "service",
    "protocol",
    "workload",
    "events",
    "oracle",
)


def read_fields(
    problems: Problems, section: str, table: Mapping[str, object], fields: Sequence[Field]
) -> dict[str, Any]:
    """The valid values of a table, by key; what is not valid, missing or unknown goes to `problems`."""
    known = {field.key: field for field in fields}
    values: dict[str, Any] = {}
    for key, value in table.items():
        field = known.get(key)
        if field is None:
            problems.add(section, "", unknown("key", key, known))
            continue
        try:
            values[key] = field.convert(value)
        except ValueError as error:
            problems.add(section, key, str(error))
    for field in fields:
        if field.required and field.key not in table:
            problems.add(section, field.key, f"missing; expected {field.expected}")
    return values
