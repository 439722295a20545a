"""The routing tables of all routers when a run ends: `logs/tables.json`.

`{node: [{"interface", "scope", "predicate"}, ...]}`, nodes as text; a row says that messages of the scope
which match the predicate leave by the interface (`router.protocol.scheme.Row`). Empty ones are left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from router.predicates.parser import parse_predicate
from router.protocol.scheme import Row
from router.runtime.client import Client
from testbed.errors import InputError
from testbed.rundir.folder import write_json

_FILE = Path("logs") / "tables.json"


def write_tables(run_dir: Path, tables: Mapping[int, Sequence[Mapping[str, Any]]]) -> None:
    write_json(run_dir / _FILE, {str(node): list(table) for node, table in sorted(tables.items())})


def ask_routers(sockets: Iterable[Path]) -> dict[int, list[dict[str, Any]]]:
    """The tables of live routers, which send nothing on that account.

    Raises:
        ClientError: a router does not answer.
    """
    tables: dict[int, list[dict[str, Any]]] = {}
    for path in sockets:
        with Client(path) as client:
            tables[client.node] = client.status()["table"]
    return tables


def read_tables(run_dir: Path) -> dict[int, tuple[Row, ...]]:
    """Node -> rows of its table.

    Raises:
        InputError: the file is missing or malformed.
    """
    path = run_dir / _FILE
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return {
            int(node): tuple(
                Row(row["interface"], row["scope"], parse_predicate(row["predicate"])) for row in rows
            )
            for node, rows in document.items()
        }
    except (OSError, ValueError, AttributeError, TypeError, KeyError) as error:
        raise InputError(
            f"{path}: expected {{node: rows of interface, scope, predicate}}: {error}"
        ) from error
