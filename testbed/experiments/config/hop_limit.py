"""The hop limit and the times of an experiment beside the depth of its trees and the delays of its links."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from router.wire.intake import TIMEOUT_S
from testbed.controller.classes import NO_PARENT
from testbed.controller.trees import LAYERS, hops_on_trees
from testbed.experiments.config import Experiment
from testbed.experiments.config.load import find_experiment, load_experiment
from testbed.experiments.config.schema import Problems, toml_value
from testbed.experiments.config.topology import parse_topology_argument
from testbed.experiments.events.network import at_worst
from topos import Topology
from topos.loaders import SUFFIXES


def load_named(source: str, given: Mapping[str, str], topology: Topology | None = None) -> Experiment:
    """Loads an experiment as `load_checked`: of a file, or of a shipped experiment's name.

    A file of a topology by itself is the default experiment on it.
    """
    path = find_experiment(source)
    if path.suffix.lower() in set(SUFFIXES) - {".toml"}:
        given = {"name": toml_value(path.stem)} | parse_topology_argument(str(path)) | {**given}
        path = find_experiment("default")
    return load_checked(path, given, topology)


def load_checked(path: Path, given: Mapping[str, str], topology: Topology | None = None) -> Experiment:
    """Loads an experiment that is to be run; its hop limit, and its times, are checked too.

    Raises:
        ExperimentError: as `load_experiment`; or the hop limit is below the depth of the trees, or a time is
            too short for the delays of the links.
    """
    experiment = load_experiment(path, given, topology=topology)
    problems = Problems(str(path), given)
    _check_hop_limit(problems, experiment)
    _check_times(problems, experiment)
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
    depth = int(hops_on_trees(experiment.topology, layer, frozenset(), frozenset()).max())
    if hop_limit < depth:
        whatever = f", or {most} for whatever links fail" if depth < most else ""
        problems.add(
            "protocol",
            "hop_limit",
            f"{hop_limit} is below the depth of the broadcast trees, which is {depth} while all links are "
            f"up; expected at least {depth}{whatever}",
        )


def _check_times(problems: Problems, experiment: Experiment) -> None:
    """Notes times that are shorter than the links allow, whose delays are wall time at any rate."""
    links = at_worst(experiment.topology, experiment.events).links
    latest = [(link.delay_ms or 0.0) + (link.jitter_ms or 0.0) for link in links]
    if not any(latest):
        return
    rate, protocol, link_s = experiment.virtual_rate, experiment.protocol, max(latest) / 1000
    # A link that is on no tree is on one when another one fails.
    way_s = max(link_s, _longest_way(experiment, latest) / 1000)
    times = [("oracle", "in_flight_window_s", way_s, "a frame is under way for up to", "wall")]
    if protocol.sr_policy != "never":
        times.append(("protocol", "sr_timeout_s", 2 * rate * way_s, "a UR takes", "experiment"))
    if protocol.reliable_control:
        times.append(("protocol", "control_retry_s", 2 * rate * link_s, "a RECEIPT takes", "experiment"))
    for section, key, least, what, unit in times:
        given = getattr(getattr(experiment, section), key)
        if given < least:
            text = f"{given:g} is too short for the delays of the links: {what} {least:.10g} {unit} seconds"
            problems.add(section, key, text)
    if 2 * max(link.jitter_ms or 0.0 for link in links) > 1000 * TIMEOUT_S:
        text = (
            f"fragments of a frame may be more than {TIMEOUT_S:g} s apart, after which a router gives it up"
        )
        problems.add("links", "jitter_ms", text)


def _longest_way(experiment: Experiment, lengths: Sequence[float]) -> float:
    """The length of the longest way from a source on its tree, all links, of these lengths, up."""
    topology, length = experiment.topology, np.array(lengths)
    u, v = np.array([(link.u, link.v) for link in topology.links]).T
    nodes, longest = np.arange(len(topology.nodes)), 0.0
    for parents in LAYERS[experiment.broadcast.layer](topology, frozenset(), frozenset()).parents:
        # The way of each node to one nearer to the source: of one hop, and of twice as many at each step.
        nearer, ways = np.where(parents == NO_PARENT, nodes, parents), np.zeros(len(nodes))
        for child, parent in ((u, v), (v, u)):
            ways[child[parents[child] == parent]] = length[parents[child] == parent]
        while (further := ways[nearer]).any():
            ways, nearer = ways + further, nearer[nearer]
        longest = max(longest, float(ways.max()))
    return round(longest, 6)
