"""The controller's configuration file: a JSON object that the runner writes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.controller.trees import LAYERS
from testbed.errors import InputError
from topos.loaders import load
from topos.model import Topology, TopologyError

#: Key -> (type, its name in errors, whether the key must be there).
_KEYS: dict[str, tuple[type, str, bool]] = {
    "topology": (str, "a path", True),
    "layer": (str, f"one of {', '.join(LAYERS)}", False),
    "socket": (str, "a path", True),
    "log": (str, "a path", True),
    "parent_pid": (int, "a process id", False),
}


@dataclass(frozen=True)
class Settings:
    """What the controller needs to know.

    Attributes:
        layer: name of the broadcast layer, a key of `trees.LAYERS`.
        socket: Unix socket on which the switches connect. Only the controller's own user can connect; on a
            TCP port any local user could pass for a switch.
        log: file that gets the events, one JSON object a line; appended to.
        parent_pid: the process that must be our parent: if it is not (any more), the controller ends.
    """

    topology: Topology
    socket: Path
    log: Path
    layer: str = "spt"
    parent_pid: int | None = None


def read_settings(path: Path) -> Settings:
    """Reads a configuration file.

    Raises:
        InputError: it, or the topology it names, cannot be read or used; names the file and the key.
    """
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: not a readable JSON file: {error}") from error
    if not isinstance(raw, dict):
        raise InputError(f"{path}: expected a JSON object")
    _check(path, raw)
    try:
        topology = load(raw.pop("topology"))
    except TopologyError as error:
        raise InputError(str(error)) from error
    return Settings(topology=topology, socket=Path(raw.pop("socket")), log=Path(raw.pop("log")), **raw)


def _check(path: Path, raw: dict[str, Any]) -> None:
    for key, value in raw.items():
        if key not in _KEYS:
            raise InputError(f"{path}: unknown key {key!r}; expected one of {', '.join(_KEYS)}")
        kind, expected, _ = _KEYS[key]
        if not isinstance(value, kind) or isinstance(value, bool):
            raise InputError(f"{path}: {key}: expected {expected}, found {value!r}")
    for key, (_, expected, required) in _KEYS.items():
        if required and key not in raw:
            raise InputError(f"{path}: {key} is missing; expected {expected}")
    if raw.get("layer", "spt") not in LAYERS:
        raise InputError(f"{path}: layer: expected {_KEYS['layer'][1]}, found {raw['layer']!r}")
