"""The calculated steady state: against simulations, and against counting on the trees of small networks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from testbed.controller.trees import LAYERS, Forest
from testbed.evaluation.figures.reproduction import FIGURES, Case, Results
from testbed.evaluation.figures.scheme_memory import receivers_below
from testbed.evaluation.figures.schemes import SCHEMES
from testbed.evaluation.figures.steady import compare
from testbed.evaluation.figures.steady_large import Interests, Large, below
from topos.scale_free import power_law

_KEYS = ("rows", "filters", "constraints", "bytes", "ra_crossings", "received", "false_positives")


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_calculation_is_equal_to_a_simulation(scheme: str) -> None:
    found = compare({"nodes": 25, "layer": "spt", "scheme": scheme}, 1)
    assert found["differing"] == 0
    for key in _KEYS:
        assert found[f"calculated {key}"] == found[f"simulated {key}"] > 0


def test_hops_that_are_left_decide_which_advertisements_go_on() -> None:
    """On long paths F is kept by hops: with F as a whole there were 4 crossings less."""
    found = compare({"nodes": 100, "layer": "spanning-tree", "scheme": "pif"}, 2)
    assert found["calculated ra_crossings"] == found["simulated ra_crossings"]


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
    parents = np.array([-1, 0, 0, 1, 3])
    assert below(parents, np.array([1, 2, 4, 8, 16])).tolist() == [31, 26, 4, 24, 16]


def _judged(case: Case, run: dict[str, Any]) -> bool | None:
    return next(iter(FIGURES["scale"]().judge(Results({case: [run]})))).holds


@pytest.mark.parametrize("key", [*_KEYS, "differing"])
def test_a_difference_from_the_simulation_fails(key: str) -> None:
    case = FIGURES["scale"]().cases("small")[0]
    equal = {f"{whose} {each}": 5 for whose in ("calculated", "simulated") for each in _KEYS} | {
        "differing": 0
    }
    assert _judged(case, equal)
    assert _judged(case, equal | {key if key == "differing" else f"calculated {key}": 6}) is False
