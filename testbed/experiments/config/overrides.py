"""Values that the command line sets over those of an experiment file."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any

from testbed.experiments.config.schema import SECTIONS, Problems
from testbed.experiments.config.topology import apply_topology_overrides


def parse_value(text: str) -> Any:
    """A value as TOML reads it; what is not a single TOML value is a string: `ring`, `a/b.brite`."""
    try:
        document = tomllib.loads(f"value = {text}")
    except (tomllib.TOMLDecodeError, RecursionError):
        return text
    # A text with a line break could smuggle in further keys.
    return document["value"] if document.keys() == {"value"} else text


def apply_overrides(
    problems: Problems, document: Mapping[str, Any], overrides: Mapping[str, str]
) -> dict[str, Any]:
    """The document with each override set: "key" at the top level, or "section.key".

    A section that the file does not have, or has as `false`, is made.
    """
    result = dict(document)
    sections: dict[str, dict[str, Any]] = {}
    for dotted, text in overrides.items():
        section, _, key = dotted.rpartition(".")
        if not key or ("." in section and section not in SECTIONS):
            problems.add("", dotted, "expected KEY=VALUE or SECTION.KEY=VALUE")
        elif section:
            sections.setdefault(section, {})[key] = parse_value(text)
        else:
            result[key] = parse_value(text)
    for section, values in sections.items():
        outer, _, section_of_it = section.partition(".")
        if section_of_it:
            around = result.get(outer) or {}
            within = around.get(section_of_it, {}) if isinstance(around, dict) else None
            if not isinstance(within, dict):
                problems.add("", section, "is not a section of keys; expected an override of another key")
            else:
                result[outer] = {**around, section_of_it: {**within, **values}}
            continue
        current = result.get(section) or {}
        if not isinstance(current, dict):
            problems.add("", section, "is not a section of keys; expected an override of another key")
        elif section == "topology":
            result[section] = apply_topology_overrides(current, values)
        else:
            result[section] = {**current, **values}
    return result
