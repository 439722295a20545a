"""A simulation that propagates messages in compiled code leaves the run folder of one that does not."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from rich.console import Console

from testbed.config.model import Experiment, RoutingOptions
from testbed.controller.trees import LAYERS
from testbed.events.fault import Fault
from testbed.events.links import LinkDown, LinkUp
from testbed.sim.bulk import Bulk, Propagated
from testbed.sim.simulation import simulate
from testbed.terminal.progress import Progress
from tests.support.fuzz import cases
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

    def counted(self: Bulk, added: int, before: tuple[int, int], until_ns: int, most: int) -> Propagated:
        nonlocal handled
        found = run(self, added, before, until_ns, most)
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


def _lines(files: dict[str, bytes]) -> list[str]:
    return [
        line for name, data in files.items() if name.endswith(".jsonl") for line in data.decode().splitlines()
    ]


@settings(max_examples=cases(10), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(experiments())
def test_experiments_that_compiled_code_may_not_propagate_are_the_same(experiment: Experiment) -> None:
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        assert _files(Path(one), experiment, bulk=True) == _files(Path(other), experiment, bulk=False)
