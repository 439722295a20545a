"""Hypothesis strategy for small experiments."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from hypothesis import strategies as st

from router.protocol.options import CONTENTS
from testbed.experiments.config import Experiment, RoutingOptions
from testbed.experiments.config.load import load_experiment
from tests.support.schemes import EXACT_SCHEMES
from topos import Topology

#: Virtual seconds (the time scale is 1) around a change in which the oracle leaves a message open.
_WINDOW_S = 1.0

_EXPERIMENT = """
seed = {seed}
duration_s = 30
time_scale = 1
[topology]
generator = "waxman"
nodes = {nodes}
links_per_node = {links}
[workload]
senders_percent = 40
receivers_percent = 80
messages_per_minute = 60
changing_receivers_percent = 60
predicate_change_interval_s = 8
first_message_s = 3
"""


@st.composite
def experiments(draw: st.DrawFn) -> Experiment:
    """Up to eight routers, of any scheme that loses no receiver; links without loss, some of them slow."""
    text = _EXPERIMENT.format(
        seed=draw(st.integers(0, 10_000)), nodes=draw(st.integers(4, 8)), links=draw(st.integers(1, 2))
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "random.toml"
        path.write_text(text)
        experiment = load_experiment(path)
    delays = st.one_of(st.none(), st.floats(0.1, 50))
    bandwidths = st.one_of(st.none(), st.floats(1, 100))
    links = tuple(
        replace(link, delay_ms=draw(delays), bandwidth_mbps=draw(bandwidths))
        for link in experiment.topology.links
    )
    topology = experiment.topology
    return replace(
        experiment,
        topology=Topology(topology.name, topology.nodes, links),
        routing=RoutingOptions(draw(st.sampled_from(EXACT_SCHEMES))),
        protocol=replace(experiment.protocol, covering=draw(st.sampled_from(tuple(CONTENTS)))),
    )
