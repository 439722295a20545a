"""The hop limit of an experiment beside the depth of its broadcast trees."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from testbed.config.errors import Problems
from testbed.config.load import load_experiment
from testbed.config.model import Experiment
from testbed.controller.trees import LAYERS, hops_on_trees
from testbed.oracle.hop_limit import HopLimit
from topos.model import Topology


def load_checked(path: Path, given: Mapping[str, str], topology: Topology | None = None) -> Experiment:
    """Loads an experiment that is to be run; its hop limit is checked too.

    Args:
        path, given, topology: as of `load_experiment`.

    Raises:
        ExperimentError: as `load_experiment`; or the hop limit is below the depth of the trees.
    """
    experiment = load_experiment(path, given, topology=topology)
    problems = Problems(str(path), given)
    _check_hop_limit(problems, experiment)
    problems.raise_if_any()
    return experiment


def _check_hop_limit(problems: Problems, experiment: Experiment) -> None:
    """Notes a hop limit that is too short for the trees of the whole network.

    Trees can get deeper when links fail; what the limit then cuts off, the oracle does not expect. Only a
    limit of one less than the number of nodes is enough whatever fails.
    """
    hop_limit, most = experiment.protocol.hop_limit, len(experiment.topology.nodes) - 1
    if hop_limit >= most:
        return
    layer = LAYERS[experiment.broadcast.layer]
    hops = hops_on_trees(experiment.topology, layer, frozenset(), frozenset())
    depth = int(hops.max())
    if hop_limit < depth:
        whatever = f", or {most} for whatever links fail" if depth < most else ""
        problems.add(
            "protocol",
            "hop_limit",
            f"{hop_limit} is below the depth of the broadcast trees, which is {depth} while all links are "
            f"up; expected at least {depth}{whatever}",
        )


def hop_limit_of(experiment: Experiment) -> HopLimit:
    """Returns the hop limit of an experiment's messages, for the oracle."""
    layer = LAYERS[experiment.broadcast.layer]
    return HopLimit(
        len(experiment.topology.nodes),
        experiment.protocol.hop_limit,
        partial(hops_on_trees, experiment.topology, layer),
    )
