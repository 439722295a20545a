"""Reads the table of a section of an experiment file, and lists the problems of the file.

The keys of a section are the options of its dataclass (`testbed.experiments.config`).
`dump_experiment` writes the file that a run folder keeps: Python's standard library reads TOML alone.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from router.options import Option, options_of
from testbed.experiments.config import NAMED, SECTIONS, Experiment, field_of
from testbed.support.errors import InputError
from topos import unknown


class ExperimentError(InputError, ValueError):
    """An experiment file that cannot be used: one line per problem.

    Each line reads "FILE: [section] key: what is wrong; expected ...".
    """

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


class Problems:
    """Collects what is wrong with one file, so that all of it is reported together.

    `overridden` holds the dotted keys that the command line gave: the file is not to blame for those.
    """

    def __init__(self, file: str, overridden: Collection[str] = ()) -> None:
        self._file = file
        self._overridden = overridden
        self._lines: list[str] = []

    def add(self, section: str, key: str, what: str) -> None:
        """Notes a problem with a key of a section; "" is the top level, or the section as a whole."""
        dotted = f"{section}.{key}" if section and key else section or key
        places = [f"[{section}]"] if section else []
        if key:
            places.append(key)
        # The parameters of a generator that an override names are those of the override.
        if dotted in self._overridden or (
            section == "topology" and f"{section}.generator" in self._overridden
        ):
            places.append("(given as an override)")
        self._lines.append(": ".join(filter(None, (self._file, " ".join(places), what))))

    def __len__(self) -> int:
        return len(self._lines)

    def raise_if_any(self) -> None:
        """Raises `ExperimentError` if a problem was noted."""
        if self._lines:
            raise ExperimentError(self._lines)


def read_fields(
    problems: Problems, section: str, table: Mapping[str, object], options: Iterable[Option]
) -> dict[str, Any]:
    """The valid values of a table, by key; what is not valid, missing or unknown goes to `problems`."""
    known = {option.key: option for option in options}
    values: dict[str, Any] = {}
    for key, value in table.items():
        option = known.get(key)
        if option is None:
            problems.add(section, "", unknown("key", key, known))
            continue
        try:
            values[key] = option.convert(value)
        except ValueError as error:
            problems.add(section, key, str(error))
    for option in known.values():
        if option.required and option.key not in table:
            problems.add(section, option.key, f"missing; expected {option.expected}")
    return values


def dotted(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Returns nested tables by dotted keys."""
    found: dict[str, Any] = {}
    for key, value in table.items():
        found |= dotted(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {prefix + key: value}
    return found


def toml_value(value: str | bool | int | float | Sequence[Any]) -> str:
    """A value as TOML text: string, boolean, integer, finite float, or a list of them.

    Raises:
        ValueError: a float that is not finite.
    """
    if isinstance(value, str):
        # A JSON string is a TOML basic string, but for DEL, which TOML wants escaped.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{value} is not finite")
        return repr(value)
    return f"[{', '.join(map(toml_value, value))}]"


def dump_experiment(experiment: Experiment, topology_file: str) -> str:
    """The experiment as TOML text, with every value written out.

    Generated topologies, overrides and the defaults for links have become one topology, which
    `topos.loaders.to_json` writes to `topology_file` beside this text. Loading the two gives an equal
    experiment.
    """
    lines = ["# The experiment as it was run; its topology is in the file beside this one."]
    lines += _keys(experiment)
    lines += ["", "[topology]", f"file = {toml_value(topology_file)}"]
    for section, options in SECTIONS.items():
        values = getattr(experiment, field_of(section), None)
        if options is not None and values is not None:
            lines += ["", f"[{section}]", *_keys(values)]
            if options in NAMED:
                lines += _keys(values.of_kind)
    for event in experiment.events:
        lines += ["", "[[events]]", f"action = {toml_value(event.action)}", *_keys(event)]
    return "\n".join(lines) + "\n"


def _keys(options: Any) -> list[str]:
    """One line for each option of a dataclass; TOML has no null, so None is left out."""
    values = {option.key: getattr(options, option.key) for option in options_of(type(options))}
    return [f"{key} = {toml_value(value)}" for key, value in values.items() if value is not None]
