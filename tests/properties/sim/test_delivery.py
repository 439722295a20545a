"""On any network, with any delays, changes and faults, a simulation delivers as the oracle expects."""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

from hypothesis import HealthCheck, given, settings, strategies as st

from router.protocol.options import CONTENTS
from testbed.experiments.config import Experiment, RoutingOptions
from testbed.experiments.config.load import load_experiment
from testbed.experiments.events.network import Fault, LinkDown, LinkUp, NodeDown, NodeUp
from testbed.results.oracle.decide import judge
from testbed.results.oracle.history import read_history
from tests.support.applications import application_events
from tests.support.fuzz import cases
from tests.support.schemes import EXACT_SCHEMES
from tests.support.simulated import simulated
from topos import Topology

#: Virtual seconds (the time scale is 1) around a change in which the oracle leaves a message open.
_WINDOW_S = 1.0

_EXPERIMENT = Path(__file__).with_name("random.toml")


@st.composite
def experiments(draw: st.DrawFn) -> Experiment:
    """Up to eight routers, of any scheme that loses no receiver; links without loss, some of them slow.

    Links and nodes fail and return.
    """
    drawn = {
        "seed": st.integers(0, 10_000),
        "topology.nodes": st.integers(4, 8),
        "topology.links_per_node": st.integers(1, 2),
    }
    experiment = load_experiment(_EXPERIMENT, {key: str(draw(of_key)) for key, of_key in drawn.items()})
    delays = st.one_of(st.none(), st.floats(0.1, 50))
    bandwidths = st.one_of(st.none(), st.floats(1, 100))
    links = tuple(
        replace(link, delay_ms=draw(delays), bandwidth_mbps=draw(bandwidths))
        for link in experiment.topology.links
    )
    topology = Topology(experiment.topology.name, experiment.topology.nodes, links)
    events: list[Fault] = []
    for _ in range(draw(st.integers(0, 3))):
        at_s, lasts_s = draw(st.floats(1, 20)), draw(st.floats(0.01, 10))
        if draw(st.booleans()):
            link = draw(st.sampled_from(links))
            events += [LinkDown(at_s, (link.u, link.v)), LinkUp(at_s + lasts_s, (link.u, link.v))]
        else:
            node = draw(st.integers(0, len(topology.nodes) - 1))
            events += [NodeDown(at_s, node), NodeUp(at_s + lasts_s, node)]
    return replace(
        experiment,
        topology=topology,
        events=tuple(sorted(events, key=lambda event: event.at_s)),
        routing=RoutingOptions(draw(st.sampled_from(EXACT_SCHEMES))),
        protocol=replace(experiment.protocol, covering=draw(st.sampled_from(tuple(CONTENTS)))),
    )


@settings(max_examples=cases(25), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(experiments())
def test_deliveries_are_those_of_the_oracle(experiment: Experiment) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = simulated(experiment, Path(folder), "none")
        judged = {(j["source"], j["seq"], j["node"]): j for j in judge(read_history(run), _WINDOW_S)}
        lines = application_events(run.path)
    made = Counter(
        (line["source"], line["seq"], line["node"]) for line in lines if line["event"] == "deliver"
    )
    assert set(made.values()) <= {1}
    assert {key for key, j in judged.items() if j["expected"] and j["decided"]} <= made.keys()
    assert made.keys() <= judged.keys()
