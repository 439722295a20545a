"""Registries: the implementations of a seam, by the name that experiment files and commands give.

The module uses the standard library alone and every package may import it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

T = TypeVar("T")


class UnknownNameError(KeyError, ValueError):
    """A name under which nothing is registered. The message lists the names that are."""

    def __str__(self) -> str:
        # KeyError shows the repr of its argument.
        return str(self.args[0])


class Registry(Mapping[str, T]):
    """A mapping from names to implementations, in the order in which they were registered.

    Args:
        noun: what an entry is, for errors: "broadcast layer", say.

    >>> layers = Registry[int]("layer")
    >>> layers.register("spt", 1)
    1
    >>> layers["rpf"]
    Traceback (most recent call last):
    ...
    router.registry.UnknownNameError: unknown layer 'rpf'; expected one of spt
    """

    def __init__(self, noun: str) -> None:
        self.noun = noun
        self._entries: dict[str, T] = {}

    def register(self, name: str, entry: T) -> T:
        """Adds an entry and returns it.

        Raises:
            ValueError: the name is registered already.
        """
        if name in self._entries:
            raise ValueError(f"{self.noun} {name!r} is registered already")
        self._entries[name] = entry
        return entry

    def unregister(self, name: str) -> None:
        """Removes an entry.

        Raises:
            UnknownNameError: there is none of this name.
        """
        self[name]
        del self._entries[name]

    def __getitem__(self, name: str) -> T:
        """The entry of a name.

        Raises:
            UnknownNameError: there is none; the error is a KeyError and a ValueError.
        """
        try:
            return self._entries[name]
        except KeyError:
            names = ", ".join(self._entries)
            raise UnknownNameError(f"unknown {self.noun} {name!r}; expected one of {names}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)
