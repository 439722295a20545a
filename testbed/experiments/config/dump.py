"""Writing an experiment: the file that a run folder keeps."""

from __future__ import annotations

from typing import Any

from router.options import options_of
from testbed.experiments.config.model import Experiment, ServiceOptions
from testbed.experiments.config.schema import SECTIONS, field_of
from testbed.experiments.config.toml_text import toml_value


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
