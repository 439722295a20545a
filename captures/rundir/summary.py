"""The summary of a run: its keys, their units and meanings, reader and writer."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Any

from captures.rundir import RunLayout
from captures.rundir.files import Document, RunFolderError

#: Key -> (unit, meaning), in the order of summary.json; docs/reference/summary.md has them.
SUMMARY_KEYS: dict[str, tuple[str, str]] = {
    key: (unit, meaning)
    for key, (unit, meaning) in tomllib.loads(
        files(__package__).joinpath("summary.toml").read_text(encoding="utf-8")
    ).items()
}

#: Type of a value in words -> its Python types, and the type of the values of a list.
_TYPES: dict[str, tuple[tuple[type, ...], str]] = {
    "text": ((str,), ""),
    "number": ((int, float), ""),
    "true or false": ((bool,), ""),
    "object": ((dict,), ""),
    "list of texts": ((list,), "text"),
    "list of objects": ((list,), "object"),
    "list of differences": ((list,), "difference"),
    "difference": ((str, dict), ""),
}
#: Name of a value within an object -> its type; every other value is a number.
_INNER = {
    name: kind
    for kind, names in {
        "object": "routers workload switches captures tshark ovs applications tunnel "
        "deliveries_from outcomes violations discarded crossings",
        "text": "of engine frames no_tshark undecided where",
        "list of texts": "events examples",
        "list of differences": "differences",
    }.items()
    for name in names.split()
}
#: Key -> names that its object, or each object of its list, has whoever wrote it.
_NEEDED = {
    "attention": "outcomes violations satisfied starvation saved_bandwidth control_overhead registrations "
    "publications deliveries deliveries_from undecided",
    "outcomes": "satisfied starved short open",
    "private": "discarded unwanted_crossings crossings",
    "recovery_s": "events at_s epoch committed_s advertised_s",
    "lag_bound": "lag_s lag_wall_s",
    "message_crossings": "messages cbcb broadcast unicast minimal",
    "differences": "where expected found",
}

SUMMARY = Document(
    lambda run: [run.summary],
    "The results of the run in numbers. docs/reference/summary.md describes its keys.",
    form=dict[str, Any],
)


def read_summary(run: RunLayout) -> dict[str, Any]:
    """Reads the summary; a key that it lacks is another version's.

    Raises:
        RunFolderError: the file is missing or malformed, or a value has another type than its key says.
    """
    summary = SUMMARY.read(run)
    for fault in faults(summary):
        raise RunFolderError(f"{run.summary}: {fault}")
    return summary


def faults(summary: Mapping[str, Any]) -> Iterator[str]:
    """Yields the keys of a summary whose values have another type than `SUMMARY_KEYS` says, as messages."""
    for key, (unit, _) in SUMMARY_KEYS.items():
        kind = unit.partition(",")[0]
        yield from _faults(key, summary.get(key), kind if kind in _TYPES else "number", key)


def _faults(where: str, value: Any, kind: str, key: str) -> Iterator[str]:
    """Yields the faults of a value, at a place, of the object or list of a key."""
    types, each = _TYPES[kind]
    if value is None:
        return
    if not isinstance(value, types):
        yield f"{where}: {value!r:.60}; expected: {kind}"
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _faults(f"{where}[{number}]", inner, each, key)
    elif isinstance(value, dict):
        for name in _NEEDED.get(key, "").split():
            if name not in value:
                yield f"{where}: has no {name}"
        for name, inner in value.items():
            yield from _faults(f"{where}.{name}", inner, _INNER.get(name, "number"), name)
