"""Reading values by declared forms: records of the run folder, and settings that a process gets.

A form is a type that msgspec converts JSON to. That of a record is a `TypedDict`, that of settings a
dataclass; each of their fields is ``Annotated[TYPE, "meaning"]``, with `msgspec.Meta` where its values have
limits. The declaration is what a file is read and checked by, and what documents are made from.
"""

from __future__ import annotations

import json
import re
from dataclasses import MISSING, dataclass, is_dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypeVar, cast, get_args, get_origin, get_type_hints

import msgspec
from msgspec import inspect

_T = TypeVar("_T")
#: Times in ns since 1970 UTC, and numbers of nodes: within the columns of tables, of 64 and 32 bits.
TimeNs = Annotated[int, msgspec.Meta(ge=0, lt=4 * 10**18)]
NodeNumber = Annotated[int, msgspec.Meta(ge=0, lt=2 * 10**9)]

#: Digits of an integer in a file: of 64 bits, with a sign.
_MOST_DIGITS = 20
_LONG = re.compile(rb"\d{%d}" % _MOST_DIGITS)
#: Kind of type -> its name in errors and documents.
_WORDS: dict[type[inspect.Type], str] = {
    inspect.IntType: "an integer",
    inspect.FloatType: "a number",
    inspect.StrType: "text",
    inspect.BoolType: "true or false",
    inspect.ListType: "a list",
    inspect.DictType: "an object",
    inspect.TypedDictType: "an object",
    inspect.DataclassType: "an object",
    inspect.NoneType: "null",
    inspect.AnyType: "any value",
}


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a record.

    Attributes:
        name: of the field.
        form: the form of its values.
        meaning: what it says.
        required: whether every record has it.
    """

    name: str
    form: Any
    meaning: str
    required: bool

    @property
    def expected(self) -> str:
        """The permitted values, in words."""
        return expected(self.form)


def parse(form: type[_T], data: bytes) -> _T:
    """Reads JSON.

    Fields that the form does not have are let through, and left out.

    Raises:
        ValueError: the data is not JSON in UTF-8, or not of the form; the message names the place.
    """
    try:
        # Few files have so many digits in a row.
        if _LONG.search(data):
            json.loads(data, parse_int=_integer)
        value: _T = _decoder(cast(Any, form)).decode(data)
        return value
    except msgspec.ValidationError:
        raise
    except (ValueError, RecursionError) as error:
        raise ValueError(f"expected JSON: {error}") from error


def convert(form: type[_T], value: Any) -> _T:
    """Makes a value of a form of what JSON gives.

    Raises:
        ValueError: as `parse`.
    """
    return msgspec.convert(value, form, str_keys=True, dec_hook=_made)


def parse_settings(form: type[_T], data: bytes) -> _T:
    """As `parse`, of settings in which every field must be known.

    Raises:
        ValueError: as `parse`, a field is unknown, or the class of the settings refuses a value.
    """
    settings = parse(form, data)
    if unknown := _unknown(msgspec.json.decode(data), settings):
        raise ValueError(unknown)
    return settings


def _unknown(given: Any, known: Any) -> str:
    """The first field of a value that its settings do not have, by its place; empty: there is none."""
    if is_dataclass(known):
        known = {name: getattr(known, name) for name in known.__dataclass_fields__}
    elif isinstance(given, list) and isinstance(known, list | tuple):
        given, known = dict(enumerate(given)), dict(enumerate(known))
    if not (isinstance(given, dict) and isinstance(known, dict)):
        return ""
    if lacking := next((name for name in given if name not in known), ""):
        return f"{lacking}: no such field; expected {', '.join(known)}"
    inner = ((name, _unknown(each, known[name])) for name, each in given.items())
    return next((f"{name}.{of}" for name, of in inner if of), "")


def fields(form: Any) -> tuple[Field, ...]:
    """The fields of a record or of settings, in order; none if the form has another type."""
    if not (isinstance(form, type) and get_origin(form) is None and hasattr(form, "__annotations__")):
        return ()
    optional = {
        name
        for name, each in getattr(form, "__dataclass_fields__", {}).items()
        if each.default is not MISSING or each.default_factory is not MISSING
    }
    return tuple(
        _field(name, hint, name not in optional)
        for name, hint in get_type_hints(form, include_extras=True).items()
    )


def forms_by_event(forms: Any) -> dict[str, Any]:
    """Each of the records of a union by the events that its field `event` may name."""
    return {name: form for form in get_args(forms) for name in get_args(get_type_hints(form)["event"])}


def expected(form: Any) -> str:
    """The permitted values of a form, in words."""
    bare = _bare(form)
    if get_origin(bare) is Literal:
        return " or ".join(f"`{value}`" for value in get_args(bare))
    info = inspect.type_info(form)
    kinds = [*info.types] if isinstance(info, inspect.UnionType) else [info]
    # A number may be written without a point, so an integer is a number too.
    if any(isinstance(kind, inspect.FloatType) for kind in kinds):
        kinds = [kind for kind in kinds if not isinstance(kind, inspect.IntType)]
    return " or ".join(map(_words, kinds))


def _made(kind: type, value: Any) -> Any:
    """A value of a type that JSON does not have."""
    if kind is Path and isinstance(value, str):
        return Path(value)
    raise ValueError(f"{value!r}; expected a path")


@cache
def _decoder(form: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(form, dec_hook=_made)


def _integer(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise ValueError(f"an integer of {len(digits)} digits; expected at most {_MOST_DIGITS}")
    return int(digits)


def _field(name: str, hint: Any, required: bool) -> Field:
    if get_origin(hint) is NotRequired:
        (hint,), required = get_args(hint), False
    metadata = hint.__metadata__ if get_origin(hint) is Annotated else ()
    meaning = next((text for text in metadata if isinstance(text, str)), "")
    return Field(name, hint, meaning, required)


def _bare(form: Any) -> Any:
    """A form without its limits and meaning."""
    return get_args(form)[0] if get_origin(form) is Annotated else form


def _words(info: inspect.Type) -> str:
    if isinstance(info, inspect.CustomType):
        return "a path"
    limits = {"above": "gt", "of at least": "ge", "below": "lt", "of at most": "le"}
    bounds = [
        f" {words} {getattr(info, name):g}"
        for words, name in limits.items()
        if getattr(info, name, None) is not None
    ]
    return _WORDS[type(info)] + " and".join(bounds)
