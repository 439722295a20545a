"""The workload of stock ticks, and the shipped topologies that it is played on."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import combinations
from pathlib import Path
from statistics import mean

import networkx as nx
import pytest

from testbed.experiments.config import Experiment
from testbed.experiments.config.load import load_experiment
from testbed.experiments.config.topology import shipped_topologies
from testbed.experiments.workload import Item
from testbed.experiments.workload.generate import generate

_SIZES = {"att": (25, 56), "dfn": (58, 87), "geant2012": (40, 61), "telstra": (104, 151)}


def _experiment(folder: Path, interests: str, **more: object) -> Experiment:
    path = folder / "ticks.toml"
    path.write_text("duration_s = 600\n[topology]\nfile = 'telstra'\n[workload]\nfirst_predicate_s = 1\n")
    settings = {"generator": f"stock-ticks-{interests}", "changing_receivers_percent": 0, **more}
    return load_experiment(path, {f"workload.{key}": str(value) for key, value in settings.items()})


def _requests(experiment: Experiment) -> tuple[list[Item], list[Item]]:
    """Returns the requests of receivers, and the ticks."""
    items = [*generate(experiment).items]
    return [item for item in items if item.predicate], [item for item in items if item.attributes]


def test_shipped_topologies_are_found_by_name_from_any_folder(tmp_path: Path) -> None:
    path = tmp_path / "small.toml"
    path.write_text("duration_s = 1\n[topology]\ngenerator = 'ring'\nnodes = 3\n")
    assert shipped_topologies().keys() == _SIZES.keys()
    for name, size in _SIZES.items():
        topology = load_experiment(path, {"topology.file": name}).topology
        assert (topology.name, len(topology.nodes), len(topology.links)) == (name, *size)
    assert {link.cost for link in topology.links} > {1, 5, 12}


def test_interests_are_those_of_routers_near_one_another_or_the_same_at_other_routers(tmp_path: Path) -> None:
    """Also of receivers that join later; ticks do not depend on receivers."""
    changing = {"changing_receivers_percent": 60, "predicate_change_interval_s": 60}
    (local, ticks), (spread, same), (_, still) = (
        _requests(_experiment(tmp_path, interests, **more))
        for interests, more in (("local", changing), ("spread", changing), ("local", {}))
    )
    assert ticks == same == still
    assert Counter(item.predicate for item in local) == Counter(item.predicate for item in spread)
    links = _experiment(tmp_path, "local").topology.links
    hops = dict(nx.all_pairs_shortest_path_length(nx.Graph([(link.u, link.v) for link in links])))
    apart = []
    for items in (local, spread):
        subscribers = defaultdict[str, set[int]](set)
        for item in items:
            for asked in (item.predicate or "").split(" or "):
                if asked != "none":
                    subscribers[asked.partition(" and ")[0]].add(item.node)
        pairs = [pair for nodes in subscribers.values() for pair in combinations(sorted(nodes), 2)]
        apart.append(mean(hops[u][v] for u, v in pairs))
    assert apart[0] < 0.8 * apart[1]


def test_ticks_are_a_random_walk_of_symbols_popular_by_zipfs_law(tmp_path: Path) -> None:
    _, ticks = _requests(_experiment(tmp_path, "local", messages_per_minute=60))
    assert len(ticks) == pytest.approx(21 * 600, rel=0.05)
    symbols = Counter(str((item.attributes or {})["symbol"]) for item in ticks)
    # The sum of 1 / i to i = 100 is 5.19.
    assert [symbols[f"S{i}"] / len(ticks) for i in range(2)] == pytest.approx([1 / 5.19, 0.5 / 5.19], rel=0.1)
    listed, price = defaultdict[str, set[int]](set), dict.fromkeys(symbols, 100.0)
    for item in ticks:
        tick = item.attributes or {}
        symbol, after = str(tick["symbol"]), float(tick["price"])
        listed[symbol].add(item.node)
        assert 100 * (after / price[symbol] - 1) == pytest.approx(tick["change"], abs=0.05)
        price[symbol] = after
    assert {len(nodes) for nodes in listed.values()} == {1}


def test_a_share_of_the_receivers_leaves_and_joins_in_turn(tmp_path: Path) -> None:
    changing = {"changing_receivers_percent": 50, "predicate_change_interval_s": 60}
    requests, _ = _requests(_experiment(tmp_path, "local", **changing))
    of_node = defaultdict[int, list[str | None]](list)
    for item in requests:
        of_node[item.node].append(item.predicate)
    assert sum(len(each) > 1 for each in of_node.values()) / len(of_node) == pytest.approx(0.5, abs=0.15)
    for predicates in of_node.values():
        assert {*predicates[1::2]} <= {"none"}
