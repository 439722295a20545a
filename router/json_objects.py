"""Dataclasses as JSON objects: settings that a process hands to its children.

The types of the fields are those of the annotations: str, int, float, bool, `pathlib.Path` (as text), None,
unions of them, and dataclasses. Fields that are options (`router.options`) are held against their
declarations, and the class itself may refuse values (`__post_init__`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from router.options import options_of

T = TypeVar("T")


class Decoder(NamedTuple):
    """How a value of a type that JSON does not have is made of a text.

    Attributes:
        read: makes it; raises ValueError.
        expected: the text, for errors.
    """

    read: Callable[[str], Any]
    expected: str


def read_object(cls: type[T], content: object, decoders: Mapping[type, Decoder] | None = None) -> T:
    """The dataclass that a JSON object describes.

    Args:
        decoders: by type, of types that the module does not know.

    Raises:
        ValueError: a field is unknown, missing, of the wrong type or outside its range; the message names it.
    """
    if not isinstance(content, dict):
        raise ValueError(f"expected an object, got {type(content).__name__}")  # noqa: TRY004 - bad input
    hints, decoders = get_type_hints(cls), decoders or {}
    known = {each.name: each for each in fields(cls)}  # type: ignore[arg-type]
    for name in content:
        if name not in known:
            raise ValueError(f"{name}: no such field; expected {', '.join(known)}")
    for name, each in known.items():
        if name not in content and each.default is MISSING and each.default_factory is MISSING:
            raise ValueError(f"{name}: missing; expected {_named(hints[name], decoders)}")
    options = {option.key: option for option in options_of(cls)}
    values = {}
    for name, value in content.items():
        try:
            values[name] = _value(hints[name], value, decoders)
            if name in options and value is not None:
                options[name].convert(value)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
    return cls(**values)


def _value(hint: Any, value: object, decoders: Mapping[type, Decoder]) -> Any:
    for kind in _kinds(hint):
        if kind in decoders:
            if isinstance(value, str):
                return decoders[kind].read(value)
        elif is_dataclass(kind):
            return read_object(kind, value, decoders)
        elif kind is Path and isinstance(value, str):
            return Path(value)
        elif kind is float and isinstance(value, int) and not isinstance(value, bool):
            return float(value)
        # In Python, unlike in JSON, True is an int.
        elif isinstance(value, kind) and (kind is bool or not isinstance(value, bool)):
            return value
    raise ValueError(f"expected {_named(hint, decoders)}, got {value!r}")


def _kinds(hint: Any) -> tuple[type, ...]:
    """The types of a union, or the type itself; of a Literal, str."""
    if isinstance(hint, UnionType):
        return get_args(hint)
    return (hint,) if get_origin(hint) is None else (str,)


def _named(hint: Any, decoders: Mapping[type, Decoder]) -> str:
    names: dict[type, str] = {NoneType: "null", Path: "a path"}
    names |= {kind: each.expected for kind, each in decoders.items()}
    return " or ".join(names.get(kind, kind.__name__) for kind in _kinds(hint))
