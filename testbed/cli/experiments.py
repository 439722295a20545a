"""The experiment that a command line names."""

from __future__ import annotations

import sys
from argparse import Namespace

from testbed.config.hop_limit import load_checked
from testbed.config.model import Experiment
from testbed.config.shipped import find_experiment
from testbed.config.toml_text import toml_value
from testbed.config.topology import parse_topology_argument
from testbed.errors import InputError
from testbed.terminal.printable import put

#: Suffixes of files that hold a network and no experiment.
_NETWORKS = (".brite", ".graphml")


def overrides(arguments: Namespace) -> dict[str, str]:
    """The values of --topology and --set, by dotted key.

    Raises:
        InputError: an option does not have the form KEY=VALUE.
    """
    found = parse_topology_argument(arguments.topology) if arguments.topology else {}
    for item in arguments.overrides:
        key, separator, value = item.partition("=")
        if not separator or not key.strip():
            raise InputError(f"--set {item}: expected KEY=VALUE, for example time_scale=30")
        found[key.strip()] = value.strip()
    return found


def load(arguments: Namespace) -> Experiment:
    """The experiment of a command line, validated.

    Raises:
        InputError: file, key or value is not right; one line for each fault.
    """
    path, given = find_experiment(arguments.experiment), overrides(arguments)
    if path.suffix.lower() in _NETWORKS:
        # A topology by itself: the default experiment on it.
        given = {"name": toml_value(path.stem)} | parse_topology_argument(str(path)) | given
        path = find_experiment("default")
    experiment = load_checked(path, given)
    for note in experiment.topology.notes:
        put(f"cbcb: topology {experiment.topology.name}: {note}", file=sys.stderr)
    return experiment
