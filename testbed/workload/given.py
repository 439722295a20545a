"""Workloads that are given: traces in files, and generators in Python packages."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from importlib.metadata import entry_points
from pathlib import Path
from random import Random
from typing import Any

from router.predicates.model import Message
from router.predicates.parser import parse_message, parse_predicate
from testbed.config.model import Experiment
from testbed.control.nodes import node_id
from testbed.errors import InputError
from testbed.workload.model import Item
from topos.model import Topology
from topos.suggest import unknown

#: Entry points of installed packages that generate workloads: functions of the experiment and a `Random` that
#: return `Item`s.
GROUP = "cbcb.workloads"
_COLUMNS = ("at_s", "node", "action", "subscription", "predicate", "message")
Generator = Callable[[Experiment, Random], Iterable[Item]]


def read_trace(path: Path, topology: Topology) -> list[Item]:
    """Reads a trace: CSV with the columns of `_COLUMNS`, or JSON lines as a run's `workload.jsonl`.

    A node is given by its number or its name. In CSV, an empty field is one that the action does not have,
    and a message is written in the readable notation.

    Raises:
        InputError: the file cannot be read, or a line is malformed; names file and line.
    """
    if path.suffix not in (".csv", ".jsonl"):
        raise InputError(f"{path}: expected a trace whose name ends in .csv or .jsonl")
    items = []
    try:
        with path.open(encoding="utf-8", newline="") as file:
            for number, fields in _rows(path, file):
                try:
                    items.append(_item(fields, topology))
                except (ValueError, TypeError, KeyError, AttributeError, OverflowError, InputError) as error:
                    said = f"{error.args[0]} is missing" if isinstance(error, KeyError) else str(error)
                    raise InputError(f"{path}, line {number}: {said}") from error
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: cannot be read: {error}") from error
    return items


def _rows(path: Path, file: Iterable[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields the number of each line with its fields."""
    if path.suffix == ".csv":
        reader = csv.DictReader(file)
        for name in reader.fieldnames or ():
            if name not in _COLUMNS:
                raise InputError(f"{path}, line 1: {unknown('column', name, _COLUMNS)}")
        for row in reader:
            if None in row:
                raise InputError(f"{path}, line {reader.line_num}: more fields than columns")
            yield reader.line_num, {key: value for key, value in row.items() if value}
        return
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        try:
            fields = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}, line {number}: not JSON: {error}") from error
        if not isinstance(fields, dict):
            raise InputError(f"{path}, line {number}: expected an object")
        yield number, fields


def _item(fields: dict[str, Any], topology: Topology) -> Item:
    values = dict(fields)
    if "message" in values:
        values["attributes"] = parse_message(values.pop("message"))
    elif values.get("attributes") is not None:
        values["attributes"] = Message(values["attributes"])
    if values.get("predicate") is not None:
        parse_predicate(values["predicate"])
    at_s = float(values.pop("at_s"))
    if not 0 <= at_s < float("inf"):
        raise ValueError(f"at_s is {at_s:g}; expected experiment seconds from 0 up")
    return Item(at_s, node_id(str(values.pop("node")), topology), **values)


def generated(name: str, experiment: Experiment, random: Random) -> list[Item]:
    """Returns the items of a generator that an installed package offers.

    Raises:
        InputError: no package offers it, or an item is none of this experiment.
    """
    offered = {each.name: each for each in entry_points(group=GROUP)}
    if name not in offered:
        known = unknown("generator", name, offered) if offered else f"no package offers {name!r}"
        raise InputError(f"workload.generator: {known} (entry points of the group {GROUP})")
    make: Generator = offered[name].load()
    items = []
    for item in make(experiment, random):
        if not isinstance(item, Item):
            raise InputError(f"workload.generator: {name} returned {item!r}; expected an Item")
        if not 0 <= item.node < len(experiment.topology.nodes):
            raise InputError(f"workload.generator: {name} names node {item.node}, which does not exist")
        attributes = None if item.attributes is None else Message(item.attributes)
        items.append(replace(item, attributes=attributes))
    return items
