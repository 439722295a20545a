"""The routing tables of all routers when a run ends: `logs/tables.json`.

`{node: {interface: predicate in the readable notation}}`, nodes and interfaces as text; an interface behind
which no predicate is known is left out, and 0 stands for the local applications.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from router.predicates.model import Predicate
from router.predicates.parser import parse_predicate
from router.runtime.client import Client
from testbed.errors import InputError
from testbed.rundir.folder import write_json

_FILE = Path("logs") / "tables.json"


def write_tables(run_dir: Path, tables: Mapping[int, Mapping[str, str]]) -> None:
    write_json(run_dir / _FILE, {str(node): dict(table) for node, table in sorted(tables.items())})


def ask_routers(sockets: Iterable[Path]) -> dict[int, dict[str, str]]:
    """The tables of live routers, which send nothing on that account.

    Raises:
        ClientError: a router does not answer.
    """
    tables: dict[int, dict[str, str]] = {}
    for path in sockets:
        with Client(path) as client:
            tables[client.node] = client.status()["predicates"]
    return tables


def read_tables(run_dir: Path) -> dict[int, dict[int, Predicate]]:
    """Node -> interface -> predicate.

    Raises:
        InputError: the file is missing or malformed.
    """
    path = run_dir / _FILE
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return {
            int(node): {int(interface): parse_predicate(text) for interface, text in table.items()}
            for node, table in document.items()
        }
    except (OSError, ValueError, AttributeError) as error:
        raise InputError(f"{path}: expected {{node: {{interface: predicate}}}}: {error}") from error
