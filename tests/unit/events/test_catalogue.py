"""Every event that an experiment may have: from the file to the network and to the logs of the run."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from captures.rundir.epochs import LINK_DOWN, NETWORK_EVENTS, epochs
from router.options import option, options_of
from router.runtime import commands
from testbed.emulation.run.parts import part_steps_of
from testbed.experiments.config import Experiment
from testbed.experiments.config.load import load_experiment
from testbed.experiments.config.schema import ExperimentError
from testbed.experiments.events import ApplicationEvent, Event, Problem
from testbed.experiments.events.network import (
    EVENTS,
    Fault,
    LinkDown,
    LinkFlap,
    NetworkControl,
    NetworkState,
    steps_of,
)
from testbed.experiments.events.parts import PartFault, check_machines
from testbed.experiments.workload import Item
from testbed.sim.applications import Applications
from testbed.support.errors import InputError
from tests.support.cases import cases_beside
from tests.support.simulated import simulated
from topos import Topology
from topos.generators import ring

#: The values of keys of events, in TOML; others are 4.
VALUES = {
    "node": "3",
    "link": "[1, 2]",
    "loss_percent": "0",
    "app": '"board"',
    "predicate": '"x > 0"',
    "message": '"x = 1"',
    "subscription": '"name"',
}
#: Fault -> the fault that must precede it so that it has an effect.
BEFORE = {"link_up": "link_down", "node_up": "node_down"}
FAULTS = [action for action, event in EVENTS.items() if issubclass(event, Fault)]
PART_FAULTS = [action for action, event in EVENTS.items() if issubclass(event, PartFault)]
HEAD = 'duration_s = 30\ntime_scale = 10\n[topology]\ngenerator = "ring"\nnodes = 5\n'


def _section(action: str, at_s: float) -> str:
    keys = [option.key for option in options_of(EVENTS[action]) if option.key != "at_s"]
    lines = [f"{key} = {VALUES.get(key, 4)}" for key in keys]
    return "\n".join(("", "[[events]]", f"at_s = {at_s}", f'action = "{action}"', *lines, ""))


def _load(folder: Path, text: str) -> Experiment:
    path = folder / "experiment.toml"
    path.write_text(text)
    return load_experiment(path)


def _simulate(folder: Path, experiment: Experiment) -> list[dict[str, Any]]:
    """The lines of the controller's log."""
    run = simulated(experiment, folder / "runs", "none")
    return [json.loads(line) for line in run.controller_log.read_text().splitlines()]


def test_every_event_has_a_sentence() -> None:
    for action, event in EVENTS.items():
        assert event.action == action
        assert event.doc.endswith(".")
        assert issubclass(event, Fault | ApplicationEvent | PartFault)


def test_every_request_is_a_method_that_takes_what_its_event_carries() -> None:
    requests = [event for event in EVENTS.values() if issubclass(event, ApplicationEvent)]
    assert requests
    for event in requests:
        takes = inspect.signature(getattr(Applications, event.action)).parameters
        assert takes.keys() == {"self", "place", *event.carries()}, event.action
        # The driver of an emulation gives what an item carries to the command; names become numbers.
        names = {"attributes": "message"}
        given = {names.get(name, name) for name in event.carries()}
        takes = inspect.signature(getattr(commands, event.action)).parameters
        needed = {name for name, each in takes.items() if each.default is each.empty}
        assert needed - {"subscription"} == given - {"subscription"}, event.action


@pytest.mark.parametrize("action", FAULTS)
def test_a_fault_leads_to_what_it_declares(tmp_path: Path, action: str) -> None:
    before = _section(BEFORE[action], 5) if action in BEFORE else ""
    experiment = _load(tmp_path, HEAD + before + _section(action, 10))
    log = _simulate(tmp_path, experiment)
    first = next(event["t_ns"] for event in log if event["event"] == "committed")
    # Ten experiment seconds are a wall second; the event before is at 5, that of the test at 10.
    begins = first + (0 if not before else 750_000_000)
    logged = {event["event"] for event in log if event["t_ns"] > begins and event["event"] in NETWORK_EVENTS}
    fault = EVENTS[action]
    assert issubclass(fault, Fault)
    assert logged - {"committed"} == {event.name for event in fault.leads_to}
    # The accounting knows each of them as a disturbance, which an epoch answers.
    found = epochs(log)
    words = {word.split()[0] for change in found.changes for word in change.events}
    assert words >= {event.name for event in fault.leads_to}
    assert found.settled


def test_a_flap_takes_the_link_down_for_as_long_as_it_says(tmp_path: Path) -> None:
    log = _simulate(tmp_path, _load(tmp_path, HEAD + _section("link_flap", 10)))
    down, up = (event for event in log if event["event"] in ("link_down", "link_up"))
    # 4 experiment seconds at ten of them in a wall second.
    assert (up["t_ns"] - down["t_ns"]) / 1e9 == 0.4
    assert (down["u"], down["v"]) == (up["u"], up["v"]) == (1, 2)


def test_a_flap_ends_before_the_experiment(tmp_path: Path) -> None:
    text = HEAD + _section("link_flap", 10).replace("down_s = 4", "down_s = 25")
    with pytest.raises(ExperimentError, match="the last part at 35 is after the end; expected at most 30"):
        _load(tmp_path, text)


# An event that is not one of the shipped ones.


@dataclass(frozen=True)
class NodeBlink(Fault):
    """A fault of this test: all links of a node go down and come up again, one after the other."""

    action = "node_blink"
    doc = "The links of a node go down and come up again, one after the other."
    leads_to = (LINK_DOWN,)

    node: int = field(metadata=option("The node.", low=0))

    def check(self, topology: Topology) -> Iterator[Problem]:
        if len(topology.nodes) < 3:
            yield "node", "blinks in networks of three nodes and more"

    def apply(self, network: NetworkControl) -> None:
        for neighbour in ((self.node + 1) % 5, (self.node - 1) % 5):
            network.set_link(self.node, neighbour, up=False)


@pytest.fixture
def blink() -> Iterator[None]:
    EVENTS.register(NodeBlink.action, NodeBlink)
    yield
    EVENTS.unregister(NodeBlink.action)


@pytest.mark.usefixtures("blink")
def test_a_fault_is_one_class_and_one_registration(tmp_path: Path) -> None:
    experiment = _load(tmp_path, HEAD + _section("node_blink", 10))
    assert experiment.events == (NodeBlink(10.0, 3),)
    log = _simulate(tmp_path, experiment)
    assert [(e["u"], e["v"]) for e in log if e["event"] == "link_down"] == [(3, 4), (2, 3)]
    with pytest.raises(ExperimentError, match=r"\[events 1\] node: blinks in networks of three"):
        _load(tmp_path, HEAD.replace("ring", "line").replace("= 5", "= 2") + _section("node_blink", 10))


@dataclass(frozen=True)
class Unheard(Event):
    """Neither a fault nor an event of an application."""

    action = "unheard"
    doc = "Nothing."


def test_an_event_of_no_known_class_is_an_error_in_a_simulation(tmp_path: Path) -> None:
    experiment = replace(_load(tmp_path, HEAD), events=(Unheard(1.0),))
    with pytest.raises(TypeError, match=r"Unheard\(at_s=1\.0\): is neither a fault nor an event"):
        _simulate(tmp_path, experiment)


@pytest.mark.parametrize("action", ["unheard", "link_down"])
def test_an_action_of_no_application_is_an_error_in_a_workload(action: str) -> None:
    with pytest.raises(ValueError, match=f"action '{action}': expected set_predicate or subscribe or unsub"):
        Item(1.0, 0, action)


def test_steps_are_in_order_of_time() -> None:
    steps = steps_of([LinkFlap(1.0, (0, 1), 5.0), LinkDown(2.0, (2, 3))])
    assert [at_s for at_s, _ in steps] == [1.0, 2.0, 6.0]


class Parts:
    """Notes the name and the arguments of each call."""

    def __init__(self) -> None:
        self.done: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *of: self.done.append((name, *of))


@pytest.mark.parametrize("action", PART_FAULTS)
def test_a_part_that_goes_comes_back_when_the_event_ends(tmp_path: Path, action: str) -> None:
    experiment = _load(tmp_path, HEAD + _section(action, 10))
    parts: Any = Parts()
    steps = part_steps_of(experiment.events)
    for _, apply in steps:
        apply(parts)
    node = 3 if "\nnode = 3" in _section(action, 10) else None
    known: dict[str, list[tuple[Any, ...]]] = {
        "captures_kill": [("kill", "captures", None)],
        "application_kill": [("kill_application", 3, "board")],
        "descriptors_exhausted": [("exhaust", 3), ("replenish", 3)],
        "machine_lost": [("kill", "machine", 3)],
        "tunnel_down": [("cut", (1, 2)), ("join", (1, 2))],
    }
    expected = known.get(action, [])
    if not expected:
        part, _, what = action.partition("_")
        pair = ("stop", "resume") if what == "stop" else ("kill", "start")
        expected = [(each, part, node) for each in pair]
    assert parts.done == expected
    assert [at_s for at_s, _ in steps] == [10.0, 14.0][: len(expected)]
    assert steps_of(experiment.events) == []


@pytest.mark.parametrize("action", PART_FAULTS)
def test_a_simulation_has_no_parts(tmp_path: Path, action: str) -> None:
    experiment = _load(tmp_path, HEAD + _section(action, 10))
    with pytest.raises(InputError, match=f"{action}: a simulation has no processes"):
        _simulate(tmp_path, experiment)


def test_faults_of_machines_need_them(tmp_path: Path, refused: Callable[..., str]) -> None:
    for action in ("machine_lost", "tunnel_down"):
        experiment = _load(tmp_path, HEAD + _section(action, 10))
        said = refused("check", tmp_path / "experiment.toml")
        assert said.startswith(f"cbcb: {action} at 10 s: expected a network over machines")
        check_machines(experiment.events, experiment.topology, [(0, 1), (2, 3, 4)])
    with pytest.raises(InputError, match="between machines: 2-3, 4-0"):
        check_machines(experiment.events, experiment.topology, [(0, 1, 2), (3, 4)])


@pytest.mark.parametrize(("other", "at_s", "refused"), cases_beside(__file__)["other_restarts"])
def test_a_switch_is_not_restarted_without_its_daemons(
    tmp_path: Path, other: str, at_s: float, refused: bool
) -> None:
    own = _section("switch_restart", 10)
    text = HEAD + own + _section(other, at_s).replace("away_s = 4", "away_s = 2")
    said = pytest.raises(ExperimentError, match=f"switch_restart at 10 s, {other} at {at_s:g} s: expected")
    with said if refused else nullcontext():
        assert {event.action for event in _load(tmp_path, text).events} == {"switch_restart", other}


@pytest.mark.parametrize(
    ("at_s", "node", "refused"), [(8, 3, True), (12, 3, True), (15, 3, False), (12, 2, False)]
)
def test_a_switch_is_not_restarted_while_it_is_away(
    tmp_path: Path, at_s: float, node: int, refused: bool
) -> None:
    text = HEAD + _section("switch_restart", 10)
    text += _section("switch_restart", at_s).replace("node = 3", f"node = {node}")
    twice = f"switch_restart at {max(10, at_s):g} s, and at {min(10, at_s):g} s"
    with pytest.raises(ExperimentError, match=twice) if refused else nullcontext():
        assert [event.at_s for event in _load(tmp_path, text).events] == [10, at_s]


def test_a_router_with_limited_subscriptions_is_not_restarted(tmp_path: Path) -> None:
    text = HEAD + '[service]\nkind = "attention"\n' + _section("router_restart", 10)
    with pytest.raises(ExperimentError, match="its applications cannot ask again"):
        _load(tmp_path, text)


def test_a_link_is_up_if_neither_it_nor_one_of_its_nodes_is_down() -> None:
    topology = ring(4)
    state = NetworkState(topology)
    link = state.set_link(1, 0, up=False)
    assert (link.u, link.v) == (0, 1)
    assert [link.index for link in state.set_node(0, up=False)] == [0, 3]
    assert (state.down_links, state.down_nodes) == ({0, 3}, {0})
    state.set_link(0, 1, up=True)
    assert not state.is_up(link), "node 0 is down"
    state.set_link(0, 1, up=False)
    state.set_node(0, up=True)
    assert (state.down_links, state.down_nodes) == ({0}, set())
    state.set_link(0, 1, up=True)
    assert state.is_up(link)
    with pytest.raises(ValueError, match="no link 0-2"):
        NetworkState(ring(4)).set_link(0, 2, up=False)
