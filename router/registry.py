"""Registries of the implementations of an interface, by the names that experiment files and commands use.

The module uses the standard library alone and every package may import it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TypeVar, cast

T = TypeVar("T")


class UnknownNameError(KeyError, ValueError):
    """A name under which nothing is registered.

    The message lists the names that are.
    """

    def __str__(self) -> str:
        # KeyError shows the repr of its argument.
        return str(self.args[0])


@dataclass(frozen=True)
class _Place:
    """The location of an entry that has not been imported yet."""

    module: str
    attribute: str


class Registry(Mapping[str, T]):
    """A mapping from names to implementations, in the order in which they were registered.

    Args:
        noun: noun for an entry in errors, such as "broadcast layer".

    Attributes:
        docs: name -> sentence about the entry.

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
        self._entries: dict[str, T | _Place] = {}
        self.docs: dict[str, str] = {}

    def register(self, name: str, entry: T, doc: str = "") -> T:
        """Adds an entry and returns it.

        Args:
            doc: a sentence about the entry, for the documents of experiment files.

        Raises:
            ValueError: the name is registered already.
        """
        if name in self._entries:
            raise ValueError(f"{self.noun} {name!r} is registered already")
        self._entries[name] = entry
        self.docs[name] = doc
        return entry

    def register_lazily(self, name: str, place: str, doc: str = "") -> None:
        """Adds the entry that is at ``package.module:attribute``.

        The module is imported when the entry is first looked up. A process loads the implementations that it
        uses and no others, and the module that states a registry depends on none of them.

        Raises:
            ValueError: the name is registered already.
        """
        module, _, attribute = place.partition(":")
        self.register(name, cast(T, _Place(module, attribute)), doc)

    def unregister(self, name: str) -> None:
        """Removes an entry.

        Raises:
            UnknownNameError: no entry has this name.
        """
        if name not in self._entries:
            raise self._unknown(name)
        del self._entries[name], self.docs[name]

    def __getitem__(self, name: str) -> T:
        """Returns the entry of a name.

        Raises:
            UnknownNameError: no entry has this name; the error is a KeyError and a ValueError.
        """
        try:
            entry = self._entries[name]
        except KeyError:
            raise self._unknown(name) from None
        if isinstance(entry, _Place):
            entry = self._entries[name] = cast(T, getattr(import_module(entry.module), entry.attribute))
        return entry

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def _unknown(self, name: str) -> UnknownNameError:
        names = ", ".join(self._entries)
        return UnknownNameError(f"unknown {self.noun} {name!r}; expected one of {names}")

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)
