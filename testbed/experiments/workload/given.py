"""Workloads that are given: traces in files, and generators in Python packages."""

from __future__ import annotations

import csv
import json
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

from router.registry import Registry
from testbed.experiments.config import Experiment
from testbed.experiments.config.events import check_event, read_keys
from testbed.experiments.config.schema import Problems
from testbed.experiments.events import ApplicationEvent, check_node
from testbed.experiments.events.network import EVENTS
from testbed.experiments.workload import CONTENT, Item
from testbed.support.errors import InputError, reading
from topos import Topology, unknown

#: The fields of a request; `message` is `attributes` in the readable notation.
_COLUMNS = ("at_s", "node", "app", "action", *(name for name in CONTENT if name != "attributes"), "message")
#: The types of the columns that are numbers.
_NUMBERS: Mapping[str, Callable[[str], float]] = {
    "at_s": float,
    "max": int,
    "lifetime_s": float,
    "freshness_s": float,
}
Generator = Callable[[Experiment, Random], Iterable[Item]]


def generators() -> Registry[Generator]:
    """Returns the generators of the testbed and of the packages that are installed now, by name."""
    found = Registry[Generator]("generator", "cbcb.workloads")
    for name in ("local", "spread"):
        found.register_lazily(f"stock-ticks-{name}", f"testbed.experiments.workload.ticks:{name}")
    return found


def given_items(experiment: Experiment, random: Random) -> list[Item] | None:
    """Returns the requests of the trace or of the generator that the experiment names; None: of neither.

    Raises:
        InputError: as `read_trace` and `generated`.
    """
    options = experiment.workload
    if options is not None and options.trace is not None:
        return read_trace(Path(options.trace), experiment)
    if options is not None and options.generator is not None:
        return generated(options.generator, experiment, random)
    return None


def read_trace(path: Path, experiment: Experiment) -> list[Item]:
    """Reads a trace: CSV with the columns of `_COLUMNS`, or JSON lines as a run's `workload.jsonl`.

    A node is given by its number or its name. In CSV, an empty field is one that the action does not have,
    and a message is written in the readable notation.

    Raises:
        InputError: the file cannot be read, or a field is missing, unknown or of another type or range; names
            file, line and field.
    """
    if path.suffix not in (".csv", ".jsonl"):
        raise InputError(f"{path}: expected a trace whose name ends in .csv or .jsonl")
    items, served = [], _served(experiment)
    try:
        # Spreadsheets write a byte order mark before the first column.
        with path.open(encoding="utf-8-sig", newline="") as file:
            for number, fields in _rows(path, file):
                items.append(_item(f"{path}, line {number}", fields, experiment.topology, served))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: cannot be read: {error}") from error
    return items


def _rows(path: Path, file: Iterable[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields the number of each line with its fields."""
    if path.suffix == ".csv":
        yield from _csv_rows(path, file)
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


def _csv_rows(path: Path, file: Iterable[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    reader = csv.DictReader(file)
    names = reader.fieldnames or ()
    if not names:
        raise InputError(
            f"{path}, line 1: is empty; expected the names of the columns: {', '.join(_COLUMNS)}"
        )
    for name in names:
        if name not in _COLUMNS:
            raise InputError(f"{path}, line 1: {unknown('column', name, _COLUMNS)}")
        if list(names).count(name) > 1:
            raise InputError(f"{path}, line 1: column '{name}' is there twice")
    for row in reader:
        if None in row:
            raise InputError(f"{path}, line {reader.line_num}: more fields than columns")
        yield reader.line_num, {key: _csv_value(key, value) for key, value in row.items() if value}


def _csv_value(name: str, text: str) -> object:
    """The value of a field of a CSV file; what is no number where one is expected stays a text."""
    convert = _NUMBERS.get(name)
    try:
        return text if convert is None else convert(text)
    except ValueError:
        return text


def _served(experiment: Experiment) -> list[str]:
    """Returns the actions of applications that the service of an experiment has."""
    commands = experiment.commands
    return [name for name in EVENTS if name in commands]


def _item(place: str, fields: Mapping[str, Any], topology: Topology, served: Sequence[str]) -> Item:
    """Returns the request of a line, or of an item of a generator; `attributes` may be in place of `message`.

    Raises:
        ExperimentError: a field is missing, unknown or not valid.
    """
    problems = Problems(place)
    table = {name: value for name, value in fields.items() if value is not None}
    found = read_keys(problems, "", table, topology, served, attributes=True)
    problems.raise_if_any()
    assert found is not None
    kind, values = found
    if "attributes" in values:
        for key, what in check_node(values["node"], topology):
            problems.add("", key, what)
        problems.raise_if_any()
        return Item(action=kind.action, **values)
    event = kind(**values)
    assert isinstance(event, ApplicationEvent)
    check_event(problems, "", event, topology)
    problems.raise_if_any()
    return Item(event.at_s, event.node, event.action, **event.content(), app=event.app)


def generated(name: str, experiment: Experiment, random: Random) -> list[Item]:
    """Returns the items of a generator of the testbed, or that an installed package offers.

    Raises:
        InputError: no package offers it, it fails, or an item is not valid in this experiment; names
            generator, item and field.
    """
    known = generators()
    if name not in known:
        raise InputError(f"workload.generator: {unknown(known.noun, name, known)}")
    with reading("workload.generator"):
        make = known[name]
    place = f"workload.generator: {name}"
    items, served = [], _served(experiment)
    for number, item in enumerate(_made(place, make, experiment, random), 1):
        if not isinstance(item, Item):
            raise InputError(f"{place}, item {number}: {item!r}; expected an Item")
        items.append(_item(f"{place}, item {number}", item.line, experiment.topology, served))
    return items


def _made(place: str, make: Generator, experiment: Experiment, random: Random) -> Iterator[object]:
    """Yields what a generator returns; whatever it raises becomes an error that names its line."""
    try:
        yield from make(experiment, random)
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)[1:2]
        where = "".join(f" at {frame.filename}, line {frame.lineno}" for frame in frames)
        raise InputError(f"{place}: fails{where}: {type(error).__name__}: {error}") from error
