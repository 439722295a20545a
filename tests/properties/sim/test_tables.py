"""After any events of a simulation, once it is quiet, one round of requests makes every table exact."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console

from router.predicates import NOTHING, Predicate
from router.predicates.parser import parse_predicate
from router.protocol.events import RequestUpdate
from router.wire.header import LOCAL_INTERFACE
from testbed.controller.trees import LAYERS
from testbed.experiments.config import Experiment, ProtocolOptions, RoutingOptions
from testbed.experiments.events.network import Fault, LinkDown, LinkUp, NodeDown, NodeUp
from testbed.results.folders import new_run_folder
from testbed.sim import due_ns
from testbed.sim.simulation import Simulation
from testbed.terminal.progress import Progress
from tests.support.algebra import covers
from tests.support.fuzz import cases
from tests.support.random_experiments import experiments
from tests.support.router_tables import predicates_of
from tests.support.routing_oracle import wrong_entries
from topos import Topology


@st.composite
def troubled(draw: st.DrawFn) -> Experiment:
    """Random delays, bandwidths and losses; links and nodes that fail, of which some return."""
    experiment = draw(experiments())
    links = tuple(
        replace(link, loss_percent=draw(st.one_of(st.none(), st.floats(1, 30))))
        for link in experiment.topology.links
    )
    topology = Topology(experiment.topology.name, experiment.topology.nodes, links)
    events: list[Fault] = []
    for _ in range(draw(st.integers(0, 4))):
        at_s, lasts_s = draw(st.floats(1, 25)), draw(st.floats(0.01, 10))
        returns = draw(st.booleans())
        if draw(st.booleans()):
            link = draw(st.sampled_from(links))
            events.append(LinkDown(at_s, (link.u, link.v)))
            if returns:
                events.append(LinkUp(at_s + lasts_s, (link.u, link.v)))
        else:
            node = draw(st.integers(0, len(topology.nodes) - 1))
            events.append(NodeDown(at_s, node))
            if returns:
                events.append(NodeUp(at_s + lasts_s, node))
    protocol = ProtocolOptions(
        sr_policy=draw(st.sampled_from(("never", "periodic", "count"))),
        sr_period_s=5.0,
        sr_threshold=20,
        sr_timeout_s=2.0,
        ur_freshness_s=3.0,
        ur_reuse=draw(st.booleans()),
        covering=experiment.protocol.covering,
    )
    layer = draw(st.sampled_from(list(LAYERS)))
    return replace(
        experiment,
        topology=topology,
        events=tuple(sorted(events, key=lambda event: event.at_s)),
        routing=RoutingOptions("pif"),
        protocol=protocol,
        broadcast=replace(experiment.broadcast, layer=layer),
    )


@settings(max_examples=cases(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(troubled())
def test_one_round_of_requests_makes_every_table_exact(experiment: Experiment) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run_dir = new_run_folder(Path(folder), "troubled")
        simulation = Simulation(experiment, run_dir, Progress(Console(quiet=True)), "none")
        try:
            simulation.set_up()
            simulation.run()
            _ask_once(simulation, experiment.protocol.ur_freshness_s)
        finally:
            simulation.close()
    topology = experiment.topology
    tables = {router.node: predicates_of(router.core) for router in simulation.routers}
    for node, table in tables.items():
        asked, p0 = _asked(simulation, node), table.get(LOCAL_INTERFACE, NOTHING)
        assert covers(p0, asked), node
        assert covers(asked, p0), node
    state = simulation.network.state
    assert not wrong_entries(
        topology,
        experiment.broadcast.layer,
        tables,
        frozenset(state.down_links),
        frozenset(state.down_nodes),
    )


def _asked(simulation: Simulation, node: int) -> Predicate:
    """Returns the predicate of the workload's last item for a node."""
    texts = [item.predicate for item in simulation.workload.items if item.node == node and item.predicate]
    return parse_predicate(texts[-1]) if texts else NOTHING


def _ask_once(simulation: Simulation, freshness_s: float) -> None:
    """Nothing is lost any more; when no answer is fresh, each router asks once, perhaps all at a time."""
    agenda = simulation.agenda
    for host in simulation.fabric._hosts:
        for wire in host.outgoing.values():
            wire.loss = 0.0
    agenda.run(agenda.now + due_ns(freshness_s) + 1, 1_000_000)
    for router in simulation.routers:
        router.handle(RequestUpdate())
        agenda.run(agenda.now + due_ns(0.01), 1_000_000)
    while agenda.next_ns is not None:
        agenda.step()
