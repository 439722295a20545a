"""The calculated steady state: beside a simulation, and against counting on the trees of small networks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from testbed.controller.classes import below
from testbed.controller.trees import LAYERS, Forest
from testbed.evaluation.figures.reproduction import FIGURES, Case, Results
from testbed.evaluation.figures.scale import _feasible
from testbed.evaluation.figures.scheme_memory import receivers_below
from testbed.evaluation.figures.schemes import SCHEMES
from testbed.evaluation.figures.steady import Interests, Large, measure
from topos.generators import power_law


def _large(nodes: int, seed: int) -> tuple[Large, Interests]:
    interests = Interests(seed, most=16)
    return Large(power_law(nodes, seed, cost="unit"), seed, interests), interests


def _counted(large: Large, forest: Forest) -> dict[str, np.ndarray[Any, Any]]:
    """Receivers in the entries of each router, summed: from the tree of each sender."""
    found = {scheme: np.zeros(large.nodes) for scheme in ("pif", "psf", "ips")}
    receivers = dict.fromkeys(np.flatnonzero(large.receivers).tolist(), 1)
    shared = set()
    for source in range(large.nodes):
        for parent, node, bits in receivers_below(forest.tree(source), receivers):
            if parent == source:
                found["pif"][parent] += bits.bit_count()
            if large.senders[source]:
                found["psf"][parent] += bits.bit_count()
                shared.add((parent, node, bits))
    for parent, _, bits in shared:
        found["ips"][parent] += bits.bit_count()
    return found


@pytest.mark.parametrize("layer", ["spt", "spanning-tree"])
@pytest.mark.parametrize(("nodes", "seed"), [(2, 1), (9, 2), (20, 3), (40, 4), (40, 5)])
def test_the_classes_of_routers_give_the_receivers_of_each_entry(layer: str, nodes: int, seed: int) -> None:
    large, interests = _large(nodes, seed)
    forest = LAYERS[layer](power_law(nodes, seed, cost="unit"), frozenset(), frozenset())
    large.classes(forest)
    for scheme, state in _counted(large, forest).items():
        assert large.found[f"{scheme} apart mean"] == pytest.approx(interests.alone * state.mean())
        assert large.found[f"{scheme} apart max"] == pytest.approx(interests.alone * state.max())
    # Each receiver is of one class of every other router.
    assert large.found["pif-classes apart mean"] == pytest.approx(large.found["pif apart mean"])


@pytest.mark.parametrize(("nodes", "seed"), [(2, 1), (9, 2), (40, 3), (120, 4)])
def test_a_spanning_tree_needs_no_tree_of_each_source(nodes: int, seed: int) -> None:
    large, _ = _large(nodes, seed)
    large.spanning_tree()
    by_links = dict(large.found)
    large.classes(LAYERS["spanning-tree"](power_law(nodes, seed, cost="unit"), frozenset(), frozenset()))
    assert {key: large.found[key] for key in by_links} == pytest.approx(by_links)
    assert len(by_links) == 4 * 4 + 1


def test_samples_of_all_routers_and_half_of_the_senders_are_near_the_classes() -> None:
    large, _ = _large(60, 6)
    large.shortest_paths()
    sampled = dict(large.found)
    large.classes(LAYERS["spt"](power_law(60, 6, cost="unit"), frozenset(), frozenset()))
    # All routers are in the sample.
    assert sampled["pif united mean"] == pytest.approx(large.found["pif united mean"])
    off = abs(sampled["psf apart mean"] - large.found["psf apart mean"])
    assert 0 < off < 3 * sampled["psf apart error"]


def test_weights_are_summed_over_subtrees() -> None:
    parents = np.array([[-1, 0, 0, 1, 3]])
    assert below(parents, np.array([1, 2, 4, 8, 16])).tolist() == [31, 26, 4, 24, 16]


def test_the_size_of_a_disjunction_of_few_predicates_is_a_mean_of_many() -> None:
    """Of two orders, 8 predicates had 21 to 25.5 constraints; in 60 drawings they have 28.9."""
    assert Interests(seed=1, most=512).sizes(np.array([8]))[1] == pytest.approx([28.9], rel=0.08)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_simulated_network_is_near_the_calculation(scheme: str) -> None:
    facts = {"what": "simulated", "nodes": 25, "layer": "spt", "scheme": scheme}
    topology = power_law(25, 1, cost="unit")
    large = Large(topology, 1, interests := Interests(1, most=32))
    large.classes(LAYERS["spt"](topology, frozenset(), frozenset()))
    state = {**large.found, "r M": large.receivers.sum() * interests.alone}
    found = measure(facts, 1)
    for key in ("mean", "max"):
        calculated = state["r M" if scheme == "drp" else f"{scheme} united {key}"]
        assert found[key] == pytest.approx(calculated, rel=0.3)
        assert found[f"apart {key}"] == pytest.approx(found[f"calculated {key}"])
    if scheme.startswith("pif"):
        assert found["RAs"] == pytest.approx(state["set-up"], rel=0.05)


def _judged(text: str, values: dict[tuple[str, int], dict[str, Any]]) -> bool | None:
    """The verdict of the statement that has a text, with the runs of cases by what and n."""
    figure, of_case = FIGURES["scale"](), {}
    for (what, nodes), run in values.items():
        facts = {"what": what, "nodes": nodes, "layer": "spt", "scheme": "pif"}
        of_case[Case(f"{what} {nodes}", {}, facts)] = [{"seed": seed, **run} for seed in (1, 2)]
    (holds,) = (each.holds for each in figure.judge(Results(of_case)) if text in each.text)
    return holds


@pytest.mark.parametrize(("simulated", "holds"), [(100, True), (116, True), (80, False), (125, False)])
@pytest.mark.parametrize(
    ("text", "key", "calculated"),
    [
        ("spt, pif: constraints a router", "mean", "exact pif united mean"),
        ("spt, pif: constraints of the fullest router", "max", "exact pif united max"),
        ("spt, pif: RAs of set-up", "RAs", "exact set-up"),
    ],
)
def test_a_calculation_far_from_the_simulation_fails(
    text: str, key: str, calculated: str, simulated: int, holds: bool
) -> None:
    state = {"nodes": 100, "r M": 1, calculated: 100}
    assert _judged(text, {("state", 100): state, ("simulated", 100): {key: simulated}}) is holds


@pytest.mark.parametrize(("held", "holds"), [(100, True), (98, True), (97, False), (101, False)])
def test_a_state_calculated_from_other_predicates_fails(held: int, holds: bool) -> None:
    run = {"calculated mean": 100, "apart mean": 100, "calculated max": 100, "apart max": held}
    assert _judged("spt, no covering: states simulated", {("simulated", 100): run}) is holds


@pytest.mark.parametrize(("nodes", "off", "holds"), [(300, 1, True), (300, 3, False), (100, 1, False)])
def test_a_sample_is_judged_by_its_error_unless_it_is_whole(nodes: int, off: int, holds: bool) -> None:
    key = "pif apart mean"
    run = {"nodes": nodes, "r M": 1, f"exact {key}": 100, key: 100 + off, "pif apart error": 1}
    assert _judged("spt: mean states of pif and psf", {("state", nodes): run}) is holds


@pytest.mark.parametrize(("after", "holds"), [(100, True), (140, False), (70, False)])
def test_a_growth_other_than_predicted_fails(after: int, holds: bool) -> None:
    """The prediction for psf is n^1."""
    key = "psf apart mean"
    runs = {("state", n): {"nodes": n, "r M": 1, key: value} for n, value in ((10, 10), (100, after))}
    assert _judged("spt, psf, no covering: growth", runs) is holds


@pytest.mark.parametrize(
    ("limit", "text"), [(5.0, "5.0e+01"), (20.0, "2.0e+02"), (1e4, "~1.0e+05"), (1e8, "> 1e+08")]
)
def test_the_feasible_n_is_marked_where_it_is_extrapolated(limit: float, text: str) -> None:
    assert _feasible([(10.0, 1.0), (100.0, 10.0), (1_000.0, 100.0)], limit) == text
    assert _feasible([(10.0, 1.0), (100.0, 1.0)], limit) == "-"
