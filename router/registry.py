"""Replaceable parts by name: what experiment files and command lines choose from."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Generic, TypeVar, cast

F = TypeVar("F")


class Registry(Generic[F]):
    """Factories by name.

    A factory is given as an object, or as the text ``package.module:name``. The module of a text is imported
    when its factory is first asked for: a router loads only the implementations that it uses, and the module
    that states the registry does not depend on the packages that implement its entries.

    Args:
        what: what the names stand for, for errors.
        entries: name -> factory.
    """

    def __init__(self, what: str, entries: Mapping[str, F | str]) -> None:
        self.what = what
        self._entries: dict[str, F | str] = dict(entries)

    def register(self, name: str, factory: F | str) -> None:
        """Adds a factory.

        Raises:
            ValueError: the name is taken.
        """
        if name in self._entries:
            raise ValueError(f"{self.what} {name!r} is registered already")
        self._entries[name] = factory

    def unregister(self, name: str) -> None:
        """Removes a factory.

        Raises:
            KeyError: the name is not registered.
        """
        del self._entries[name]

    def names(self) -> tuple[str, ...]:
        """All names, in the order of registration."""
        return tuple(self._entries)

    def check(self, name: str) -> None:
        """Raises ValueError, with the names that exist, if the name is not registered."""
        if name not in self._entries:
            raise ValueError(
                f"unknown {self.what} {name!r}; expected one of {', '.join(sorted(self._entries))}"
            )

    def get(self, name: str) -> F:
        """The factory of a name.

        Raises:
            ValueError: the name is not registered.
        """
        self.check(name)
        entry = self._entries[name]
        if isinstance(entry, str):
            module, _, attribute = entry.partition(":")
            found: Any = getattr(import_module(module), attribute)
            entry = self._entries[name] = cast(F, found)
        return entry
