"""Registries of the implementations of an interface, by the names that experiment files and commands use.

The module uses the standard library alone and every package may import it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points
from typing import TypeVar, cast

T = TypeVar("T")


class UnknownNameError(KeyError, ValueError):
    """A name under which nothing is registered.

    The message lists the names that are.
    """

    def __str__(self) -> str:
        # KeyError shows the repr of its argument.
        return str(self.args[0])


class PackageError(ValueError):
    """An entry of an installed package cannot be used; the message names both."""


@dataclass(frozen=True)
class _Place:
    """The location of an entry that has not been imported yet, and the package that registers it."""

    module: str
    attribute: str
    package: str = ""


class Registry(Mapping[str, T]):
    """A mapping from names to implementations, in the order in which they were registered.

    Installed packages register further entries by entry points of the registry's group, which are read when a
    name is not known, or all names are asked for.

    Args:
        noun: noun for an entry in errors, such as "broadcast layer".
        group: the group of entry points, such as "cbcb.layers"; empty: no package registers entries.

    >>> layers = Registry[int]("layer")
    >>> layers.register("spt", 1)
    1
    >>> layers["rpf"]
    Traceback (most recent call last):
    ...
    router.registry.UnknownNameError: unknown layer 'rpf'; expected one of spt
    """

    def __init__(self, noun: str, group: str = "") -> None:
        self.noun = noun
        #: Whether packages may register entries.
        self.open = bool(group)
        self._group = group
        self._entries: dict[str, T | _Place] = {}
        self._docs: dict[str, str] = {}
        #: Name of an entry of a package -> its module.
        self.packaged: dict[str, str] = {}

    @property
    def docs(self) -> Mapping[str, str]:
        """Name -> sentence about the entry."""
        self._read_packages()
        return self._docs

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
        self._docs[name] = doc
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
        del self._entries[name], self._docs[name]

    def __getitem__(self, name: str) -> T:
        """Returns the entry of a name.

        Raises:
            UnknownNameError: no entry has this name; the error is a KeyError and a ValueError.
            PackageError: the entry of a package cannot be imported.
        """
        if name not in self:
            raise self._unknown(name)
        entry = self._entries[name]
        if not isinstance(entry, _Place):
            return entry
        try:
            found = self._entries[name] = cast(T, getattr(import_module(entry.module), entry.attribute))
        except Exception as error:
            if name not in self.packaged:
                raise
            what = f"{self.noun} {name!r} of package {entry.package} cannot be imported"
            raise PackageError(f"{what}: {type(error).__name__}: {error}") from error
        return found

    def __contains__(self, name: object) -> bool:
        if name not in self._entries:
            self._read_packages()
        return name in self._entries

    def _read_packages(self) -> None:
        """Adds the entries of installed packages, once; those of the testbed keep their names."""
        group, self._group = self._group, ""
        for each in entry_points(group=group) if group else ():
            package = each.dist.name if each.dist else "?"
            place = _Place(each.module, each.attr, package)
            try:
                self.register(each.name, cast(T, place), f"Of the package {package}.")
                self.packaged[each.name] = each.module
            except ValueError as error:
                sys.stderr.write(f"cbcb: entry point {each.name} of package {package} is left out: {error}\n")

    def _unknown(self, name: str) -> UnknownNameError:
        names = ", ".join(self._entries)
        return UnknownNameError(f"unknown {self.noun} {name!r}; expected one of {names}")

    def __iter__(self) -> Iterator[str]:
        self._read_packages()
        return iter(self._entries)

    def __len__(self) -> int:
        self._read_packages()
        return len(self._entries)
