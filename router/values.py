"""Values that are made often, immutable for the type checker alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

_T = TypeVar("_T")


@dataclass_transform(frozen_default=True)
def value(cls: type[_T]) -> type[_T]:
    """Makes a class a dataclass with slots that is frozen for the type checker, and for it alone.

    The constructor of a dataclass that is frozen at run time takes twice as long, or more: it calls
    `object.__setattr__` for each field. A router makes several frames, events and actions at each hop.
    """
    return dataclass(slots=True, unsafe_hash=True)(cls)
