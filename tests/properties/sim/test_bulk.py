"""A simulation that propagates messages in compiled code leaves the run folder of one that does not."""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from rich.console import Console

from router.predicates.model import Type
from router.predicates.printer import format_predicate
from testbed.config.model import Experiment, RoutingOptions
from testbed.controller.trees import LAYERS
from testbed.events.applications import SetPredicate
from testbed.events.fault import Fault
from testbed.events.links import LinkDown, LinkUp
from testbed.sim import adverts
from testbed.sim.bulk import Bulk, Propagated
from testbed.sim.carrier import BulkCarrier
from testbed.sim.layout import RA_IN, Exit
from testbed.sim.simulation import simulate
from testbed.terminal.progress import Progress
from tests.support.fuzz import cases
from tests.support.predicate_worlds import MIXED, predicates
from tests.support.random_experiments import experiments
from topos.model import Topology

#: Files that differ between any two runs.
_OF_THE_RUN = {"manifest.json", "timings.json", "simulation.json"}


def _files(folder: Path, experiment: Experiment, bulk: bool) -> dict[str, bytes]:
    with (folder / "output").open("w") as output:
        run_dir = simulate(experiment, folder, Progress(Console(file=output)), "all", bulk)
    return {
        str(path.relative_to(run_dir)): path.read_bytes()
        for path in run_dir.rglob("*")
        if path.is_file() and path.name not in _OF_THE_RUN
    }


@st.composite
def propagated(draw: st.DrawFn) -> Experiment:
    """Experiments whose messages compiled code may propagate: links with delays, some of which fail."""
    experiment = draw(experiments())
    topology = experiment.topology
    links = tuple(replace(link, bandwidth_mbps=None) for link in topology.links)
    events: list[Fault] = []
    for link in draw(st.lists(st.sampled_from(links), max_size=3, unique_by=lambda link: link.index)):
        at_s = draw(st.floats(4, 25))
        events.append(LinkDown(at_s, (link.u, link.v)))
        if draw(st.booleans()):
            events.append(LinkUp(at_s + draw(st.floats(0.01, 5)), (link.u, link.v)))
    return replace(
        experiment,
        topology=Topology(topology.name, topology.nodes, links),
        routing=RoutingOptions(draw(st.sampled_from(["pif", "pif-strict"]))),
        protocol=replace(
            experiment.protocol, covering="full", hop_limit=draw(st.sampled_from([64, len(topology.nodes)]))
        ),
        broadcast=replace(experiment.broadcast, layer=draw(st.sampled_from(tuple(LAYERS)))),
        events=tuple(sorted(events, key=lambda event: event.at_s)),
    )


@settings(max_examples=cases(30), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(propagated())
def test_bulk_and_single_events_leave_the_same_run_folder(experiment: Experiment) -> None:
    handled = 0
    run = Bulk.run

    def counted(self: Bulk, *limits: Any) -> Propagated:
        nonlocal handled
        found = run(self, *limits)
        handled += found.done
        return found

    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        expected = _files(Path(one), experiment, bulk=False)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Bulk, "run", counted)
            found = _files(Path(other), experiment, bulk=True)
    assert found.keys() == expected.keys()
    for name, content in expected.items():
        assert found[name] == content, name
    event(f"arrivals in compiled code: {'some' if handled else 'none'}")
    if any('"event": "deliver"' in line for line in _lines(expected)):
        assert handled


@st.composite
def advertised(draw: st.DrawFn) -> Experiment:
    """Experiments with predicates of few bounds, which cover each other and merge, and with small limits."""
    experiment = draw(propagated())
    nodes, options = len(experiment.topology.nodes), experiment.protocol
    kinds = draw(st.sampled_from([[Type.INTEGER], [Type.INTEGER, Type.BOOLEAN], MIXED]))
    declared = draw(
        st.lists(
            st.tuples(st.floats(0, 20), st.integers(0, nodes - 1), predicates("xyz", kinds).filter(bool)),
            min_size=2,
            max_size=24,
        )
    )
    events = [SetPredicate(at_s, node, format_predicate(each)) for at_s, node, each in declared]
    if draw(st.booleans()):
        options = replace(options, predicate_burst=3000, predicate_weight=100, predicate_rate=5)
    options = replace(
        options,
        hop_limit=draw(st.sampled_from([2, 3, 5, 64])),
        turn_pairs=draw(st.sampled_from([1, 40, 200, 2000])),
        table_filters=draw(st.sampled_from([20, 50_000])),
        sr_policy=draw(st.sampled_from(["never", "periodic"])),
        sr_period_s=7.0,
        sr_timeout_s=0.2,
    )
    return replace(
        experiment,
        protocol=options,
        events=tuple(sorted((*experiment.events, *events), key=lambda event: event.at_s)),
    )


@settings(max_examples=cases(20), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(advertised(), st.sampled_from([2, 8, 256]))
def test_advertisements_in_compiled_code_leave_the_same_run_folder(
    experiment: Experiment, places: int
) -> None:
    handled: Counter[str] = Counter()
    collect, answer = BulkCarrier.collect, Bulk._answer

    def counted(self: BulkCarrier) -> None:
        handled["RAs"] += int(self._bulk.node_counts[:, RA_IN].sum())
        collect(self)

    def asked(self: Bulk, exit_: int) -> None:
        handled[Exit(exit_).name] += 1
        answer(self, exit_)

    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        expected = _files(Path(one), experiment, bulk=False)
        with pytest.MonkeyPatch.context() as patch:
            # Relations of no more filters are remembered.
            patch.setattr(adverts, "_PLACES", places)
            patch.setattr(adverts, "RELATIONS_BYTES", 1)
            patch.setattr(BulkCarrier, "collect", counted)
            patch.setattr(Bulk, "_answer", asked)
            found = _files(Path(other), experiment, bulk=True)
    assert found.keys() == expected.keys()
    for name, content in expected.items():
        assert found[name] == content, name
    for name in handled:
        event(f"{name} in compiled code")


def _lines(files: dict[str, bytes]) -> list[str]:
    return [
        line for name, data in files.items() if name.endswith(".jsonl") for line in data.decode().splitlines()
    ]


@settings(max_examples=cases(10), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(experiments())
def test_experiments_that_compiled_code_may_not_propagate_are_the_same(experiment: Experiment) -> None:
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        assert _files(Path(one), experiment, bulk=True) == _files(Path(other), experiment, bulk=False)
