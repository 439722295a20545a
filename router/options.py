"""Options as data: type, range, default, unit and meaning of each key, declared once with a dataclass field.

From a declaration come the check of a value that a user wrote, the text of an error, and the tables of the
documents::

    @dataclass(frozen=True)
    class OracleOptions:
        window_s: float = setting(1.0, "Time around ...", low=0)

    options_of(OracleOptions)  # (Option(key="window_s", kind="number", low=0, ...),)

The module uses the standard library alone and every package may import it.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from enum import Enum
from functools import cache
from typing import Any, Literal, TypeGuard, TypeVar, Union, get_args, get_origin, get_type_hints

_T = TypeVar("_T")
#: 31 years: times in nanoseconds stay within 64 bits.
SECONDS_MAX = 1e9
#: A file name may have 255 bytes; that of a run folder also has a time and perhaps a number.
NAME_MAX_BYTES = 200
FILE_NAME = "[^-/.][^/]{0,99}"
#: Key of the declaration in the metadata of a dataclass field.
_METADATA = "option"

Kind = Literal["integer", "number", "boolean", "string", "pair"]


class Unit(Enum):
    """Unit of a value, as documents name it."""

    NONE = ""
    EXPERIMENT_SECONDS = "experiment seconds"
    WALL_SECONDS = "wall seconds"
    MILLISECONDS = "wall milliseconds"
    PERCENT = "percent"
    PER_MINUTE = "per experiment minute"
    MBIT_PER_SECOND = "Mbit/s"


@dataclass(frozen=True)
class Option:
    """A key: its type, and the values that it takes.

    Attributes:
        kind: "pair" is a list of two node ids; a "number" may be written as an integer.
        low, high: least and greatest value of an integer or number (None: any).
        above_low: `low` itself is excluded.
        choices: the permitted values of a string (empty: any); a registry is read at each check.
        word: a text that a number may have in its place, for example "auto"; empty: none.
        node: the integer, or the pair, names nodes, which a file may also give by their names.
        file_name: the string becomes part of a file name.
        path: the string names a file or a folder, relative to the folder of the file that has the key.
        default: the value without the key; None if there is none.
        unit: of the value.
        doc: the meaning, in a sentence.
    """

    key: str
    kind: Kind
    low: float | None = None
    high: float | None = None
    above_low: bool = False
    choices: Collection[str] = field(default=(), hash=False)
    required: bool = False
    node: bool = False
    file_name: bool = False
    path: bool = False
    default: Any = None
    unit: Unit = Unit.NONE
    doc: str = ""
    word: str = ""

    @property
    def expected(self) -> str:
        """The values that the key takes, for an error."""
        return f'{self._expected} or "{self.word}"' if self.word else self._expected

    @property
    def _expected(self) -> str:
        if self.kind == "boolean":
            return "true or false"
        if self.kind == "pair":
            return "two node ids, such as [0, 1]"
        if self.file_name:
            return (
                f"a name of 1 to 100 printable characters (at most {NAME_MAX_BYTES} bytes)"
                " without '/' that begins with neither '.' nor '-'"
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
        """Returns the value in the type of the dataclass field.

        Raises:
            ValueError: the value is not of the type or not in the range; the message states the expected
                values.
        """
        if self.word and value == self.word:
            return value
        if not self._has_type(value) or not self._in_range(value):
            raise ValueError(f"{_show(value)} is not valid; expected {self.expected}")
        if self.kind == "number":
            return float(value)  # type: ignore[arg-type]
        return tuple(value) if self.kind == "pair" else value  # type: ignore[arg-type]

    def _has_type(self, value: object) -> bool:
        if self.kind == "boolean":
            return isinstance(value, bool)
        if self.file_name:
            return isinstance(value, str) and re.fullmatch(FILE_NAME, value) is not None and _fits(value)
        if self.kind == "string":
            return isinstance(value, str)
        if self.kind == "pair":
            return isinstance(value, list) and len(value) == 2 and all(_is_integer(end) for end in value)
        if self.kind == "integer":
            return _is_integer(value)
        # Not NaN, infinite, or an integer that no float can hold.
        return (_is_integer(value) or isinstance(value, float)) and abs(value) <= sys.float_info.max

    def _in_range(self, value: Any) -> bool:
        if self.kind == "string":
            return value in self.choices if self.choices else bool(value)
        if self.kind not in ("integer", "number"):
            return True
        if self.low is not None and (value < self.low or (self.above_low and value == self.low)):
            return False
        return self.high is None or value <= self.high


#: Metadata of a dataclass field that is an option: the option before `_complete` adds the facts of its field.
Declaration = Mapping[str, Option]


def option(doc: str, *, key: str = "", default: Any = MISSING, **declared: Any) -> Declaration:
    """Returns the `metadata` of a dataclass field that is an option; `declared` are attributes of `Option`.

    Key (unless given), type and default are those of the field, or of the parameter of a function:
    `options_of` and `parameters_of` complete the declaration. A `default` in the declaration applies to files
    without the key if the field has no default.
    """
    return {_METADATA: Option(key, "string", default=default, doc=doc, **declared)}


def setting(default: _T, doc: str, **declared: Any) -> _T:
    """Returns a dataclass field with a default that is an option; `declared` as of `option`."""
    return field(default=default, metadata=option(doc, **declared))


def seconds(default: _T, doc: str, **declared: Any) -> _T:
    """Returns a `setting` of experiment seconds, 0 to `SECONDS_MAX` unless `declared` says otherwise."""
    return setting(
        default, doc, **{"low": 0, "high": SECONDS_MAX, "unit": Unit.EXPERIMENT_SECONDS, **declared}
    )


def percent(default: _T, doc: str, **declared: Any) -> _T:
    """Returns a `setting` of percent, 0 to 100 unless `declared` says otherwise."""
    return setting(default, doc, **{"low": 0, "high": 100, "unit": Unit.PERCENT, **declared})


@dataclass(frozen=True, slots=True)
class NoOptions:
    """The options of a scheme or a service that has none."""


def options_of(cls: type) -> tuple[Option, ...]:
    """Returns the options among the fields of a dataclass, in their order.

    Raises:
        TypeError: the type of an option is neither bool, int, float, str, a Literal of strings nor tuple[int,
            int], nor one of these types or None, nor a float or a Literal (of the option's `word`).
    """
    return _options_of(cls)


@cache
def _options_of(cls: Hashable) -> tuple[Option, ...]:
    assert isinstance(cls, type)
    hints = get_type_hints(cls)
    return tuple(
        _complete(each.metadata[_METADATA], each.name, hints[each.name], each.default)
        for each in fields(cls)
        if _METADATA in each.metadata
    )


def parameters_of(function: Callable[..., Any], declared: Mapping[str, Declaration]) -> dict[str, Option]:
    """Returns the options among the parameters of a function, by parameter, as `declared` by `option`.

    Raises:
        TypeError: as `options_of`.
    """
    hints, parameters = get_type_hints(function), inspect.signature(function).parameters
    found = {}
    for name, metadata in declared.items():
        default = parameters[name].default
        if default is inspect.Parameter.empty:
            default = MISSING
        found[name] = _complete(metadata[_METADATA], name, hints[name], default)
    return found


def check(options: object) -> None:
    """Checks the values of a dataclass of options against their declarations.

    Raises:
        ValueError: a value is outside its range; names the option.
    """
    for each in options_of(type(options)):
        value = getattr(options, each.key)
        if value is None and not each.required and each.default is None:
            continue
        try:
            each.convert(value)
        except ValueError as error:
            raise ValueError(f"{each.key}: {error}") from None


def _complete(declared: Option, name: str, hint: Any, default: Any) -> Option:
    if declared.default is not MISSING:
        default = declared.default
    kind, choices = _kind(hint)
    return replace(
        declared,
        key=declared.key or name,
        kind=kind,
        choices=choices or declared.choices,
        required=default is MISSING,
        default=None if default is MISSING else default,
    )


def _kind(hint: Any) -> tuple[Kind, tuple[str, ...]]:
    """Returns the type of an option, and the choices of a Literal."""
    kinds: dict[Any, Kind] = {
        bool: "boolean",
        int: "integer",
        float: "number",
        str: "string",
        tuple[int, int]: "pair",
    }
    if get_origin(hint) is Literal:
        return "string", get_args(hint)
    if get_origin(hint) is Union and float in get_args(hint) and type(None) not in get_args(hint):
        return "number", ()
    for known, kind in kinds.items():
        if hint in (known, known | None):
            return kind, ()
    raise TypeError(f"an option cannot be of type {hint}; expected one of {', '.join(map(str, kinds))}")


def _fits(name: str) -> bool:
    # An argument that was not UTF-8 is not printable.
    return name.isprintable() and len(name.encode()) <= NAME_MAX_BYTES


def _is_integer(value: object) -> TypeGuard[int]:
    # In Python, unlike in TOML, True is an int.
    return isinstance(value, int) and not isinstance(value, bool)


def _show(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    return str(value)
