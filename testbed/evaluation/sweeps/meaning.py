"""The identity of a run: a digest of what its experiment means, whatever text says so."""

from __future__ import annotations

import hashlib
import inspect
import json
from dataclasses import MISSING, Field, fields, is_dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from router.options import options_of
from testbed.experiments.events.event import Event
from testbed.experiments.workload.given import GROUP
from topos.model import Topology

#: Options that name a file or a folder, of which the contents count.
_FILES = frozenset({"distributions", "schema", "trace", "key_file", "signing_keys"})
_GENERATOR = "generator"


def identity(*facts: Any) -> str:
    """Returns a digest of all that determines a run, by which its row is found when a sweep is continued.

    Experiments among the facts count by the values that differ from the defaults, so that neither a default
    that is written out nor an option that other code has added makes another run. Files that an experiment
    names count by their contents.
    """
    text = json.dumps(facts, sort_keys=True, default=_meaning)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _meaning(value: Any) -> Any:
    if not is_dataclass(value):
        return str(value)
    found = {"action": value.action} if isinstance(value, Event) else {}
    declared = {option.key: option for option in options_of(type(value))}
    for each in fields(value):
        part = getattr(value, each.name)
        # The names of a network, as that of its file, and remarks on it change no run.
        if isinstance(value, Topology) and each.name in ("name", "notes"):
            continue
        option = declared.get(each.name)
        if part == (_default(each) if option is None or option.required else option.default):
            continue
        if each.name in _FILES:
            part = _contents(Path(part))
        elif option is not None and option.kind == "pair":
            part = sorted(part)
        elif each.name == _GENERATOR:
            part = [
                part,
                *(inspect.getsource(offer.load()) for offer in entry_points(group=GROUP, name=part)),
            ]
        found[each.name] = part
    return found


def _default(of: Field[Any]) -> Any:
    return of.default if of.default_factory is MISSING else of.default_factory()


def _contents(path: Path) -> list[str]:
    """Returns a digest of a file, or of each file of a folder with its name."""
    if not path.is_dir():
        return [hashlib.sha256(path.read_bytes()).hexdigest()]
    files = sorted(each for each in path.iterdir() if each.is_file())
    return [f"{each.name} {hashlib.sha256(each.read_bytes()).hexdigest()}" for each in files]
