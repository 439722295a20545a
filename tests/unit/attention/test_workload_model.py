"""The workload of table 1: popularity, volumes, hosting routers, rates, renewals."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random

import networkx as nx
import pytest
from hypothesis import given, settings, strategies as st

from captures.rundir.measures import read_routers_counters
from testbed.controller.trees import spt_trees
from testbed.experiments.config import AttentionWorkload
from testbed.experiments.config.load import load_experiment
from testbed.experiments.config.schema import ExperimentError, dump_experiment
from testbed.experiments.workload.attention import Demand, Fluid, hosts_of, popularities, volumes
from testbed.experiments.workload.generate import generate
from testbed.results.oracle.attention.baseline import crossings
from tests.support.exhaustive_cost import cost_of
from tests.support.simulated import simulated
from topos import Topology
from topos.generators import barabasi_albert

_SMALL = AttentionWorkload(events=20, subscriptions=200, publications=4_000, lifetime_s=10.0)


def _topology(nodes: int = 100, seed: int = 1) -> Topology:
    return barabasi_albert(nodes, seed=seed, links_per_node=1)


def test_popularities_are_those_of_the_paper() -> None:
    shares = popularities(500, 0.7)
    assert sum(shares) == pytest.approx(1)
    assert 1 / shares[0] == pytest.approx(18.7346, abs=1e-4)
    assert shares[0] == pytest.approx(0.0534, abs=1e-4)
    assert shares[-1] == pytest.approx(0.00069, abs=1e-5)


@given(st.integers(1, 50), st.integers(0, 1_000), st.floats(0, 3))
def test_volumes_add_up_and_differ_by_less_than_one(events: int, total: int, exponent: float) -> None:
    shares = popularities(events, exponent)
    found = volumes(shares, total)
    assert sum(found) == total
    assert all(abs(volume - total * share) < 1 + 1e-6 for volume, share in zip(found, shares, strict=True))


def test_hosting_routers_are_a_root_and_the_closest_to_it() -> None:
    topology = _topology()
    shares = popularities(500, 0.7)
    found = hosts_of(shares, topology, Random("hosts"))
    assert [len(hosts) for hosts in found[:11]] == [6, 4, 3, 3, 2, 2, 2, 2, 2, 2, 1]
    assert {len(hosts) for hosts in found[10:]} == {1}
    graph = nx.Graph((link.u, link.v) for link in topology.links)
    for hosts in found[:10]:
        hops = nx.single_source_shortest_path_length(graph, hosts[0])
        farthest = max(hops[host] for host in hosts)
        closer = {node for node, distance in hops.items() if distance < farthest}
        assert closer <= set(hosts)
        assert len(set(hosts)) == len(hosts)


def test_popularities_that_are_not_normalised_are_shares_of_the_routers() -> None:
    demand = Demand(replace(_SMALL, normalised=False), _topology(), 100.0, 7)
    assert [len(hosts) for hosts in demand.hosts[:5]] == [100, 62, 47, 38, 33]
    assert sum(demand.popularities) == pytest.approx(1)


def test_subscriptions_that_begin_late_come_at_the_same_rate() -> None:
    late = Demand(replace(_SMALL, subscriptions_from_s=60.0), _topology(), 100.0, 7)
    whole = Demand(_SMALL, _topology(), 100.0, 7)
    assert late.subscriptions == whole.subscriptions[120:]
    assert list(late.published("publish")) == list(whole.published("publish"))


def test_subscriptions_and_publications_come_at_constant_rates() -> None:
    demand = Demand(_SMALL, _topology(), 100.0, 7)
    times = [each.at_s for each in demand.subscriptions]
    assert len(times) == 200
    assert all(b - a == pytest.approx(0.5) for a, b in pairwise(times))
    uploads = list(demand.published("publish"))
    assert all(b.at_s - a.at_s == pytest.approx(0.025, abs=2e-6) for a, b in pairwise(uploads))
    events = Counter(each.attributes["event"] for each in uploads if each.attributes)
    assert events == dict(enumerate(volumes(demand.popularities, 4_000)))
    assert {each.node for each in uploads} == set(range(100))
    assert all(each.node in demand.hosts[each.event] for each in demand.subscriptions)


def test_renewals_follow_at_the_ends_of_lifetimes() -> None:
    demand = Demand(_SMALL, _topology(), 100.0, 7)
    found = list(demand.registrations())
    assert [each.at_s for each in found] == sorted(each.at_s for each in found)
    by_number: dict[int, list[tuple[int, float]]] = {}
    for each in found:
        by_number.setdefault(each.subscription.number, []).append((each.round, each.at_s))
    for number, rounds in by_number.items():
        subscription = demand.subscriptions[number]
        expected = [
            (k, at_s)
            for k in range(subscription.rounds)
            if (at_s := round(subscription.at_s + k * 10.01, 6)) <= 100
        ]
        assert rounds == expected


def test_mean_number_of_lifetimes() -> None:
    demand = Demand(replace(_SMALL, subscriptions=20_000), _topology(10), 1000.0, 1)
    rounds = [each.rounds for each in demand.subscriptions]
    assert sum(rounds) / len(rounds) == pytest.approx(2, abs=0.05)


def test_picking_in_proportion_to_what_is_left_is_stationary() -> None:
    """Uniform picks leave the late publications to the popular events; proportional picks do not."""
    shares = {}
    for pick in ("remaining", "uniform"):
        options = replace(_SMALL, publications=20_000, pick=pick)
        uploads = list(Demand(options, _topology(), 100.0, 3).published("publish"))
        assert len(uploads) == 20_000
        late = Counter(each.attributes["event"] for each in uploads[-2_000:] if each.attributes)
        shares[pick] = late[0] / 2_000
    expected = popularities(20, 0.7)[0]
    assert shares["remaining"] == pytest.approx(expected, abs=0.03)
    assert shares["uniform"] > 3 * expected


def test_uniform_draws_stay_within_the_bounds() -> None:
    options = replace(_SMALL, draw="uniform", subscriptions=2_000)
    demand = Demand(options, _topology(), 100.0, 1)
    assert {each.max for each in demand.subscriptions} == set(range(1, 11))
    assert all(0 < each.lifetime_s <= 10 and 0 < each.freshness_s <= 1000 for each in demand.subscriptions)
    constant = Demand(_SMALL, _topology(), 100.0, 1).subscriptions
    assert {(each.max, each.lifetime_s, each.freshness_s) for each in constant} == {(10, 10.0, 1000.0)}


# The fluid model of figure 2, and CBR counted for each publication.


_TABLE_1 = AttentionWorkload()


def _fluid(most: int = 10) -> Fluid:
    return Fluid(replace(_TABLE_1, max=most), 100, 1000.0)


def test_exhaustive_deliveries() -> None:
    assert round(_fluid().exhaustive_deliveries()) == 692_269
    assert _fluid().active == pytest.approx(1000)
    assert _TABLE_1.subscriptions + _fluid().renewals == pytest.approx(20_000)


def test_without_publications_nothing_is_delivered() -> None:
    fluid = Fluid(replace(_TABLE_1, publications=0), 100, 1000.0)
    assert (fluid.limited_deliveries(), fluid.exhaustive_deliveries()) == (0.0, 0.0)


def test_saved_bandwidth_by_max() -> None:
    expected = {10: 0.87, 20: 0.76, 50: 0.57, 100: 0.43, 200: 0.30, 500: 0.16, 2000: 0.11, 5000: 0.11}
    assert {most: round(_fluid(most).saved_bandwidth(), 2) for most in expected} == expected


def test_control_at_max_10() -> None:
    assert _fluid().visited() == pytest.approx(1.2, abs=0.05)
    assert _fluid().control_share() == pytest.approx(0.006, abs=0.0005)
    # All caches together hold fewer publications of an event: SUBs visit all routers.
    assert _fluid(200_000).control_share() == pytest.approx(0.5)


@settings(max_examples=40)
@given(st.integers(2, 12), st.integers(0, 99), st.data())
def test_minimal_trees(nodes: int, seed: int, data: st.DataObject) -> None:
    topology = barabasi_albert(nodes, seed=seed, links_per_node=2)
    forest = spt_trees(topology)
    source = data.draw(st.integers(0, nodes - 1))
    receivers = data.draw(st.frozensets(st.integers(0, nodes - 1)))
    tree = nx.Graph((node, int(p)) for node, p in enumerate(forest.parents[source]) if p >= 0)
    tree.add_node(source)
    links = {
        frozenset(link)
        for node in receivers
        for path in [nx.shortest_path(tree, source, node)]
        for link in itertools.pairwise(path)
    }
    assert crossings(forest.parents[source].tolist(), source, receivers) == len(links)


def test_router_deliveries_of_table_1_are_those_of_the_model() -> None:
    """At a fifth of table 1's publications; the first lifetimes of the run have fewer subscriptions."""
    options = replace(_TABLE_1, publications=100_000)
    topology = barabasi_albert(100, seed=1, links_per_node=1)
    cost = cost_of(Demand(options, topology, 1000.0, 1), spt_trees(topology))
    expected = Fluid(options, 100, 1000.0).exhaustive_deliveries()
    assert cost.router_deliveries == pytest.approx(expected, rel=0.06)
    assert cost.router_deliveries < expected


# The workload of table 1 in experiment files, and played under exhaustive semantics.


_FILE = Path(__file__).with_name("small.toml").read_text()


def _file(folder: Path, text: str = _FILE) -> Path:
    path = folder / "small.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_section_takes_the_place_of_the_random_workload(tmp_path: Path) -> None:
    experiment = load_experiment(_file(tmp_path), {"workload.attention.max": "20"})
    assert experiment.workload is None
    assert experiment.attention == AttentionWorkload(
        events=6, subscriptions=30, publications=600, max=20, lifetime_s=100.0
    )
    assert "[workload.attention]\nevents = 6\n" in dump_experiment(experiment, "topology.json")
    with pytest.raises(
        ExperimentError, match=r"\[workload\] senders_percent: and \[workload.attention\] exclude"
    ):
        load_experiment(_file(tmp_path, f"{_FILE}\n[workload]\nsenders_percent = 20\n"))
    with pytest.raises(
        ExperimentError, match=r"\[workload.attention\] subscription: unknown|unknown key 'subscription'"
    ):
        load_experiment(_file(tmp_path), {"workload.attention.subscription": "1"})


def test_items_are_generated_in_order_at_each_iteration(tmp_path: Path) -> None:
    experiment = load_experiment(_file(tmp_path), {"workload.attention.lifetime_s": "4"})
    items = generate(experiment).items
    assert list(items) == list(items)
    assert all(a.at_s <= b.at_s for a, b in pairwise(items))
    counts = Counter(item.action for item in items)
    assert counts["send_message"] == 600
    assert counts["subscribe"] == 30
    assert 15 < counts["unsubscribe"] <= 30
    assert len([*items]) == counts.total()


def test_exhaustive_service_has_the_traffic_of_the_baseline(tmp_path: Path) -> None:
    """A simulated network with minimal delivery crosses the links that the baseline counts."""
    experiment = load_experiment(_file(tmp_path))
    counters = read_routers_counters(simulated(experiment, tmp_path, "none"))
    received = sum(each["frames_received"].get("MSG", 0) for each in counters.values())
    cost = cost_of(Demand.of(experiment), spt_trees(experiment.topology))
    assert received == cost.publication_crossings > 500
