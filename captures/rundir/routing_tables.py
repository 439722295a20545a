"""The routing tables of all routers at the end of a run."""

from __future__ import annotations

from collections.abc import Mapping

from captures.rundir.files import RunFolderError, as_object, key_number, read_object, write_json
from captures.rundir.layout import RunLayout
from captures.rundir.records import RunFile

FILE = RunFile(
    lambda run: [run.routing_tables],
    "The table of every router at the end: `{node: {interface: predicate}}`, nodes and interfaces as text, "
    "predicates in the readable notation. Interface 0 is the local applications; an interface without a "
    "known predicate is left out.",
)


def read_routing_tables(run: RunLayout) -> dict[int, dict[int, str]]:
    """Reads node -> interface -> predicate; empty if the run kept no tables.

    Raises:
        RunFolderError: the file is malformed.
    """
    path = run.routing_tables
    if not path.exists():
        return {}
    found: dict[int, dict[int, str]] = {}
    for name, table in read_object(path).items():
        own = found[key_number(path, name)] = {}
        for interface, predicate in as_object(f"{path}: node {name}", table).items():
            if not isinstance(predicate, str):
                where = f"{path}: node {name}: interface {interface}"
                raise RunFolderError(f"{where}: {predicate!r}; expected a predicate")
            own[key_number(path, interface)] = predicate
    return found


def write_routing_tables(run: RunLayout, tables: Mapping[int, Mapping[str, str]]) -> None:
    """Writes node -> interface -> predicate whole or not at all."""
    write_json(run.routing_tables, {str(node): dict(table) for node, table in sorted(tables.items())})
