"""One table at a single router, or spread over a network: the same filters, and the same receivers."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from router.matching.columns import to_predicates
from router.matching.engines import factory
from router.predicates import Predicate
from testbed.controller.trees import spt_trees
from testbed.evaluation.figures.network_effect import NetworkEffect, crossing
from testbed.evaluation.figures.network_effect_runs import (
    LOCAL,
    NETWORKS,
    at_router,
    covered,
    engines,
    measured,
    own_receivers,
)
from testbed.evaluation.figures.reproduction import SEED, Results
from testbed.experiments.siena_ff.generate import MatchingWorkload, draw_messages, draw_table
from testbed.support.usage import object_bytes
from tests.support.algebra import covers
from topos.generators import waxman

_WORKLOAD = MatchingWorkload(constraints=400, interfaces=12, messages=60, seed=3)


def test_covering_keeps_the_filters_of_an_interface_that_no_other_covers() -> None:
    table = draw_table(MatchingWorkload(constraints=900, interfaces=3, seed=3))
    before, after = to_predicates(table), to_predicates(covered(table))
    dropped = 0
    for interface, predicate in before.items():
        filters = [Predicate((each,)) for each in dict.fromkeys(predicate)]
        needed = [own for own in filters if not any(covers(each, own) and each != own for each in filters)]
        assert set(after[interface]) == {each for own in needed for each in own}
        dropped += len(predicate) - len(needed)
    assert dropped > 20


@pytest.mark.parametrize("covering", [False, True])
@pytest.mark.parametrize("engine", ["counting", "compiled"])
def test_a_message_finds_its_receivers_hop_by_hop(engine: str, covering: bool) -> None:
    """From any router, the tables of the network lead to the receivers that the single table matches."""
    table, routers = draw_table(_WORKLOAD), 5
    trees = spt_trees(waxman(routers, seed=2)).trees()
    single = factory("compiled")
    single.load(table)
    engine_of = engines(engine, table, covering)
    matchers, applications = (
        [engine_of(place(trees, router, 12)) for router in range(routers)]
        for place in (at_router, own_receivers)
    )
    deliveries = 0
    for message in draw_messages(_WORKLOAD):
        found: set[int] = set()
        pending = [(0, 0)]
        while pending:
            router, parent = pending.pop()
            for interface in matchers[router].match(message):
                if interface == LOCAL:
                    found |= applications[router].match(message)
                elif interface != parent and trees[0].parents[interface] == router:
                    pending.append((interface, router))
        assert found == single.match(message)
        deliveries += len(found)
    assert deliveries


@pytest.mark.parametrize("covering", [False, True])
@pytest.mark.parametrize("engine", ["counting", "compiled"])
def test_both_arrangements_are_measured(engine: str, covering: bool) -> None:
    facts = {"network": "4 Waxman routers", "receivers": 20, "constraints": 400}
    found = measured({**facts, "engine": engine, "covering": covering}, seed=1)
    assert found["pairs"] > 0
    assert 0 < found["hops"] < 4
    times = ("single_us", "path_us", "forward_us", "busiest_us", "single_total_us")
    assert min(found[key] for key in (*times, "single_bytes", "busiest_bytes")) > 0


def test_every_network_of_the_figure_exists() -> None:
    figure = NetworkEffect()
    cases = [case for size in figure.sizes for case in figure.cases(size)]
    assert {case.facts["network"] for case in cases} <= NETWORKS.keys()
    assert len(NETWORKS["tree of 121 routers"](1).nodes) == 121


def test_an_object_counts_once_with_all_that_it_refers_to() -> None:
    text = "x" * 1_000
    assert object_bytes([text, text]) == sys.getsizeof([text, text]) + sys.getsizeof(text)
    assert object_bytes({1: [text]}) > sys.getsizeof(text)


@pytest.mark.parametrize(
    ("ratios", "size"),
    [
        ([], None),
        ([(10, 0.1), (100, 0.5)], None),
        ([(10, 1.5), (100, 2.0)], 10),
        ([(10, 0.1), (1000, 10.0)], 100),
        # It wins, loses and wins: from the last crossing on.
        ([(1, 2.0), (10, 0.1), (1000, 10.0)], 100),
    ],
)
def test_both_are_as_fast_at_the_crossing_point(ratios: list[tuple[int, float]], size: float | None) -> None:
    assert crossing(ratios) == (None if size is None else pytest.approx(size))


def _results(path_us: float) -> Results:
    single = {"single_us": 1_000.0, "single_total_us": 100.0, "single_bytes": 3e6}
    busiest = {"busiest_us": 10.0, "busiest_bytes": 2e6, "hops": 4.0}
    run: dict[str, Any] = single | busiest | {"path_us": path_us, "forward_us": path_us / 2}
    return Results({case: [{**run, SEED: 1}] for case in NetworkEffect().cases("paper")})


@pytest.mark.parametrize(
    ("path_us", "holds"), [(199.0, [True, True]), (201.0, [False, True]), (401.0, [False, False])]
)
def test_the_largest_table_of_the_papers_algorithm_is_judged(path_us: float, holds: list[bool]) -> None:
    """Along the path, and without own receivers, which takes half the time here."""
    judged = [each for each in NetworkEffect().judge(_results(path_us)) if each.holds is not None]
    assert [each.holds for each in judged] == 3 * holds
    assert all(
        each.text.startswith("counting, ")
        and ", 1,000 receivers" in each.text
        and "1,000,000 con" in each.text
        for each in judged
    )


def test_crossing_points_and_memory_of_every_engine_are_on_the_page() -> None:
    figure, results = NetworkEffect(), _results(400.0)
    table, crossings = figure.tables(results)
    assert crossings.columns == (
        "network",
        *(f"{engine}, {us} us a hop" for engine in ("counting", "compiled") for us in ("43.1", "2.65")),
    )
    # 400 us and 4 hops of 43.1 us are less than 1,000 us.
    assert crossings.rows[0] == ["100 Waxman routers, 1,000 receivers", *["at most 10,000"] * 4]
    assert len(table.rows) == len(figure.cases("paper"))
    assert all(row[-2:] == ["3", "2"] and row[7] == "150" for row in table.rows)
    *panels, ratios = figure.panels(results)
    assert all(panel.points and panel.curves["one router"] for panel in panels)
    assert {value for curves in ratios.curves.values() for curve in curves for _, value in curve} == {2.5}
