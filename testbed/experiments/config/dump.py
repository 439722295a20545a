"""Writing an experiment: the file that a run folder keeps.

Python's standard library reads TOML but does not write it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from router.options import options_of
from testbed.experiments.config.model import Experiment, ServiceOptions
from testbed.experiments.config.schema import SECTIONS, field_of


def toml_value(value: str | bool | int | float | Sequence[int]) -> str:
    """A value as TOML text: string, boolean, integer, finite float, or a list of integers.

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
    return f"[{', '.join(map(str, value))}]"


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
            if isinstance(values, ServiceOptions):
                lines += _keys(values.of_kind)
    for event in experiment.events:
        lines += ["", "[[events]]", f"action = {toml_value(event.action)}", *_keys(event)]
    return "\n".join(lines) + "\n"


def _keys(options: Any) -> list[str]:
    """One line for each option of a dataclass; TOML has no null, so None is left out."""
    values = {option.key: getattr(options, option.key) for option in options_of(type(options))}
    return [f"{key} = {toml_value(value)}" for key, value in values.items() if value is not None]
