"""What an experiment file may hold: each key of each section, its type and its range.

Defaults are those of the dataclasses in `testbed.config.model`; they are not repeated here.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeGuard, get_args

from router.content.registry import CONTENTS
from router.matching.factory import ENGINES
from router.protocol.registries import SCHEMES, SERVICES
from testbed.config.errors import Problems
from testbed.config.model import BroadcastLayer, EventAction, SenderRequestPolicy
from topos.suggest import unknown

#: A wall second of a day: more says nothing about a network. The least keeps wall seconds finite.
_TIME_SCALE_MIN = 1e-6
_TIME_SCALE_MAX = 86_400
#: 31 years: times in nanoseconds stay numbers that can be reckoned with.
_SECONDS_MAX = 1e9
#: Each is drawn for every predicate.
_FILTERS_MAX = 10_000
#: A file name may have 255 bytes; that of a run folder also has a time and perhaps a number.
NAME_MAX_BYTES = 200
_FILE_NAME = re.compile(r"[^/.\x00-\x1f\x7f][^/\x00-\x1f\x7f]{0,99}")

Kind = Literal["integer", "number", "boolean", "string", "pair"]


@dataclass(frozen=True)
class Field:
    """A key: its type, and the values that it takes.

    Attributes:
        kind: "pair" is a list of two node ids; a "number" may be written as an integer.
        low, high: least and greatest value of an integer or number (None: any).
        above_low: `low` itself is excluded.
        choices: the only values of a string, if there are any; a registry: the names that it has by then.
        file_name: the string becomes part of a file name.
    """

    key: str
    kind: Kind
    low: float | None = None
    high: float | None = None
    above_low: bool = False
    choices: Collection[str] = ()
    required: bool = False
    file_name: bool = False

    @property
    def expected(self) -> str:
        """What the key takes, for an error."""
        if self.kind == "boolean":
            return "true or false"
        if self.kind == "pair":
            return "two node ids, such as [0, 1]"
        if self.file_name:
            return (
                f"a name of 1 to 100 characters (at most {NAME_MAX_BYTES} bytes)"
                " without '/' that does not begin with '.'"
            )
        if self.kind == "string":
            return " or ".join(f'"{choice}"' for choice in self.choices) or "a string that is not empty"
        noun = "an integer" if self.kind == "integer" else "a number"
        if self.low is None:
            return noun
        if self.above_low:
            return f"{noun} above {self.low:g}" + ("" if self.high is None else f", at most {self.high:g}")
        if self.high is None:
            return f"{noun}, {self.low:g} or more"
        return f"{noun} from {self.low:g} to {self.high:g}"

    def convert(self, value: object) -> Any:
        """The value as the model has it.

        Raises:
            ValueError: it is not of the type or not in the range; the message says what was expected.
        """
        if not self._has_type(value) or not self._in_range(value):
            raise ValueError(f"{_show(value)} is not valid; expected {self.expected}")
        if self.kind == "number":
            return float(value)  # type: ignore[arg-type]
        return tuple(value) if self.kind == "pair" else value  # type: ignore[arg-type]

    def _has_type(self, value: object) -> bool:
        if self.kind == "boolean":
            return isinstance(value, bool)
        if self.file_name:
            return isinstance(value, str) and _FILE_NAME.fullmatch(value) is not None and _fits(value)
        if self.kind == "string":
            return isinstance(value, str)
        if self.kind == "pair":
            return isinstance(value, list) and len(value) == 2 and all(_is_integer(end) for end in value)
        if self.kind == "integer":
            return _is_integer(value)
        # Not NaN, infinite, or an integer that no float can hold.
        return _is_number(value) and abs(value) <= sys.float_info.max

    def _in_range(self, value: Any) -> bool:
        if self.kind == "string":
            return value in self.choices if self.choices else bool(value)
        if self.kind not in ("integer", "number"):
            return True
        if self.low is not None and (value < self.low or (self.above_low and value == self.low)):
            return False
        return self.high is None or value <= self.high


def _fits(name: str) -> bool:
    try:
        return len(name.encode()) <= NAME_MAX_BYTES
    except UnicodeEncodeError:  # an argument that was not UTF-8
        return False


def _is_integer(value: object) -> TypeGuard[int]:
    # In Python, unlike in TOML, True is an int.
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> TypeGuard[int | float]:
    return _is_integer(value) or isinstance(value, float)


def _show(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    return str(value)


EXPERIMENT: tuple[Field, ...] = (
    Field("name", "string", file_name=True),
    Field("seed", "integer", 0),
    Field("duration_s", "number", 0, _SECONDS_MAX, above_low=True, required=True),
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
    Field("ra_period_s", "number", 0, _SECONDS_MAX, above_low=True),
    Field("hop_limit", "integer", 1, 255),
    Field("ra_min_interval_s", "number", 0, _SECONDS_MAX),
    Field("ra_jitter_s", "number", 0, _SECONDS_MAX),
    Field("sr_policy", "string", choices=get_args(SenderRequestPolicy)),
    Field("sr_period_s", "number", 0, _SECONDS_MAX, above_low=True),
    Field("sr_threshold", "integer", 0),
    Field("sr_min_interval_s", "number", 0, _SECONDS_MAX),
    Field("sr_timeout_s", "number", 0, _SECONDS_MAX, above_low=True),
    Field("ur_reuse", "boolean"),
    Field("ur_freshness_s", "number", 0, _SECONDS_MAX),
    Field("max_filters", "integer", 1),
    Field("covering", "string", choices=CONTENTS),
    Field("matcher", "string", choices=ENGINES),
)
WORKLOAD: tuple[Field, ...] = (
    Field("senders_percent", "number", 0, 100),
    Field("receivers_percent", "number", 0, 100),
    Field("messages_per_minute", "number", 0, above_low=True),
    Field("changing_receivers_percent", "number", 0, 100),
    Field("predicate_change_interval_s", "number", 0, _SECONDS_MAX, above_low=True),
    Field("first_message_s", "number", 0, _SECONDS_MAX),
    Field("filters_min", "integer", 1, _FILTERS_MAX),
    Field("filters_max", "integer", 1, _FILTERS_MAX),
    Field("constraints_min", "integer", 1),
    Field("constraints_max", "integer", 1),
    Field("attributes_min", "integer", 1),
    Field("attributes_max", "integer", 1),
)
ORACLE: tuple[Field, ...] = (Field("in_flight_window_s", "number", 0, _SECONDS_MAX),)
EVENT: tuple[Field, ...] = (
    Field("at_s", "number", 0, _SECONDS_MAX, required=True),
    Field("action", "string", choices=get_args(EventAction), required=True),
    Field("node", "integer", 0),
    Field("predicate", "string"),
    Field("message", "string"),
    Field("link", "pair"),
    Field("subscription", "string"),
)
#: What an event of each action says beside `at_s` and `action`: all of this and nothing else.
EVENT_KEYS: Mapping[EventAction, tuple[str, ...]] = {
    "set_predicate": ("node", "predicate"),
    "subscribe": ("node", "subscription", "predicate"),
    "unsubscribe": ("node", "subscription"),
    "send_message": ("node", "message"),
    "link_down": ("link",),
    "link_up": ("link",),
    "node_down": ("node",),
    "node_up": ("node",),
}
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
