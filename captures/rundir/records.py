"""Record types of the run folder: checking data against them, and describing them.

A record type is a `TypedDict` whose fields are ``Annotated[TYPE, "meaning"]``, inside `NotRequired` where a
record may lack the field. The check of a file that is read and the document of the run folder are both made
of that one declaration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from captures.rundir.files import RunFolderError, read_lines
from captures.rundir.layout import RunLayout
from router.records.json_file import json_line

_Record = TypeVar("_Record")

#: Type that JSON gives -> its name in errors and documents.
_NAMES: dict[type, str] = {
    int: "an integer",
    float: "a number",
    str: "text",
    bool: "true or false",
    list: "a list",
    dict: "an object",
    NoneType: "null",
}


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a record.

    Attributes:
        name: of the field.
        types: the types that its value may have; empty: any.
        values: the values that it may have; empty: any of the types.
        meaning: what it says.
        required: whether every record has it.
    """

    name: str
    types: frozenset[type]
    values: tuple[Any, ...]
    meaning: str
    required: bool

    @property
    def expected(self) -> str:
        """The permitted values, in words."""
        if self.values:
            return " or ".join(f"`{value}`" for value in self.values)
        # A number may be written without a point, so an integer is a number too.
        types = self.types - {int} if float in self.types else self.types
        return " or ".join(name for kind, name in _NAMES.items() if kind in types) or "any value"


@dataclass(frozen=True, slots=True)
class RunFile:
    """The description of a file in the document of the run folder.

    Attributes:
        names: gives the paths that the sentence is about.
        sentence: what the file holds, and who writes it.
        records: heading and type of each record of the file; the heading is empty if there is one type.
    """

    names: Callable[[RunLayout], Iterable[Path]]
    sentence: str
    records: tuple[tuple[str, type], ...] = ()


@cache
def fields(record: type) -> tuple[Field, ...]:
    """The fields of a record type, in order."""
    return tuple(_field(name, hint) for name, hint in get_type_hints(record, include_extras=True).items())


def check(record: type[_Record], where: str, value: Mapping[str, Any]) -> _Record:
    """Checks data against a record type, and returns it.

    Fields that the type does not have are let through.

    Args:
        where: the place of the data, for the error.

    Raises:
        RunFolderError: a field is missing or its value is not of its type.
    """
    form: type = record
    for name, types, required in _checks(form):
        try:
            found = value[name]
        except KeyError:
            if required:
                raise RunFolderError(f"{where}: no field {name!r}") from None
            continue
        if types and type(found) not in types:
            (one,) = [each for each in fields(form) if each.name == name]
            raise RunFolderError(f"{where}: {name}: {found!r}; expected {one.expected}")
    return cast("_Record", value)


def read_log(path: Path, form: type[_Record]) -> list[_Record]:
    """Reads the records of a log of JSON lines, in their order; empty if the run has no such log.

    Raises:
        RunFolderError: a line is malformed; the last one may be unfinished.
    """
    if not path.exists():
        return []
    return [check(form, where, record) for where, record in read_lines(path, unfinished=True)]


def append_to_log(path: Path, record: Mapping[str, Any]) -> None:
    """Appends a record to a log of JSON lines.

    Raises:
        OSError: the line cannot be written.
    """
    with path.open("a", encoding="utf-8") as file:
        file.write(json_line(record))


@cache
def _checks(record: type) -> tuple[tuple[str, frozenset[type], bool], ...]:
    """Name, types of each field and whether it is required: what `check` asks of every line of a log."""
    return tuple((one.name, one.types, one.required) for one in fields(record))


def _field(name: str, hint: Any) -> Field:
    required = get_origin(hint) is not NotRequired
    if not required:
        (hint,) = get_args(hint)
    meaning = ""
    if get_origin(hint) is Annotated:
        hint, meaning = get_args(hint)
    values = get_args(hint) if get_origin(hint) is Literal else ()
    return Field(name, frozenset(_types(hint)), values, meaning, required)


def _types(hint: Any) -> Iterable[type]:
    """The types that JSON gives for values of a type."""
    origin = get_origin(hint) or hint
    if origin in (Union, UnionType):
        for each in get_args(hint):
            yield from _types(each)
    elif origin is Literal:
        yield from {type(value) for value in get_args(hint)}
    elif origin is float:
        yield from (int, float)
    elif origin in (int, str, bool, NoneType, list):
        yield origin
    elif isinstance(origin, type) and issubclass(origin, Mapping):
        yield dict
    elif origin is not Any:
        raise TypeError(f"no record has a field of the type {hint}")
