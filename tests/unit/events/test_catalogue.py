"""Every event that an experiment may have: from the file to the network and to the logs of the run."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from captures.rundir import RunLayout
from captures.rundir.epochs import LINK_DOWN, NETWORK_EVENTS, epochs
from router.options import option, options_of
from testbed.emulation.control.commands import Commands
from testbed.emulation.network.emulated import EmulatedNetwork
from testbed.emulation.run.governor import EmulationClock, Limits
from testbed.emulation.run.lag_watch import LagWatch
from testbed.emulation.run.schedule import RunningNetwork, play
from testbed.experiments.config import Experiment
from testbed.experiments.config.load import load_experiment
from testbed.experiments.config.schema import ExperimentError
from testbed.experiments.events import ApplicationControl, ApplicationEvent, Event, Problem
from testbed.experiments.events.network import (
    EVENTS,
    Fault,
    LinkDown,
    LinkFlap,
    NetworkControl,
    steps_of,
)
from testbed.experiments.events.parts import PartFault, part_steps_of
from testbed.experiments.workload import Item, Workload
from testbed.experiments.workload.driver import Driver
from testbed.machine.probes import KernelFeatures
from testbed.support.errors import InputError
from tests.support.simulated import simulated
from topos import Link, Topology

#: A value for each key of an event, in TOML.
VALUES = {
    "node": "3",
    "link": "[1, 2]",
    "down_s": "4",
    "loss_percent": "0",
    "bandwidth_mbps": "10",
    "delay_ms": "3",
    "jitter_ms": "1",
    "reorder_percent": "1",
    "duplicate_percent": "1",
    "for_s": "4",
    "away_s": "4",
    "app": '"board"',
    "predicate": '"x > 0"',
    "message": '"x = 1"',
    "subscription": '"name"',
    "max": "3",
    "lifetime_s": "5",
    "freshness_s": "60",
}
#: Fault -> the fault that must precede it so that it has an effect.
BEFORE = {"link_up": "link_down", "node_up": "node_down"}
FAULTS = [action for action, event in EVENTS.items() if issubclass(event, Fault)]
PART_FAULTS = [action for action, event in EVENTS.items() if issubclass(event, PartFault)]
HEAD = 'duration_s = 30\ntime_scale = 10\n[topology]\ngenerator = "ring"\nnodes = 5\n'


def _section(action: str, at_s: float) -> str:
    keys = [option.key for option in options_of(EVENTS[action]) if option.key != "at_s"]
    lines = [f"{key} = {VALUES[key]}" for key in keys]
    return "\n".join(("", "[[events]]", f"at_s = {at_s}", f'action = "{action}"', *lines, ""))


def _load(folder: Path, text: str) -> Experiment:
    path = folder / "experiment.toml"
    path.write_text(text)
    return load_experiment(path)


def _simulate(folder: Path, experiment: Experiment) -> list[dict[str, Any]]:
    """The lines of the controller's log."""
    run = simulated(experiment, folder / "runs", "none")
    return [json.loads(line) for line in run.controller_log.read_text().splitlines()]


def test_every_event_has_a_sentence_and_every_key_too() -> None:
    for action, event in EVENTS.items():
        assert event.action == action
        assert event.doc.endswith(".")
        assert issubclass(event, Fault | ApplicationEvent | PartFault)
        for key in options_of(event):
            assert key.doc.endswith("."), (action, key)


def test_every_request_is_a_method_that_takes_what_its_event_carries() -> None:
    requests = [event for event in EVENTS.values() if issubclass(event, ApplicationEvent)]
    assert requests
    for event in requests:
        takes = inspect.signature(getattr(ApplicationControl, event.action)).parameters
        assert takes.keys() == {"self", "place", *event.carries()}, event.action


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


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("down_s = 4\n", "", "down_s: missing; an event with action link_flap needs link and down_s"),
        ("down_s = 4", "down_s = 0", "down_s: 0 is not valid; expected a number above 0, at most 1e+09"),
        (
            "down_s = 4",
            "down_s = 25",
            "the last part at 35 is after the end; expected at most 30 (duration_s)",
        ),
        ("[1, 2]", "[1, 3]", "link: nodes 1 and 3 are not joined; expected the ends of a link"),
        ("down_s", "node", "node: has no meaning for action link_flap; expected link and down_s"),
        ("link_flap", "link_flop", 'action: "link_flop" is not valid; expected "set_predicate" or "subscr'),
    ],
)
def test_problems_of_a_flap_name_the_key(tmp_path: Path, old: str, new: str, problem: str) -> None:
    with pytest.raises(ExperimentError) as caught:
        _load(tmp_path, HEAD + _section("link_flap", 10).replace(old, new))
    assert any(problem in line for line in caught.value.problems)


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


def test_an_event_of_no_known_class_is_an_error_in_an_emulation(tmp_path: Path) -> None:
    experiment = replace(_load(tmp_path, HEAD), events=(Unheard(1.0),))
    control = EmulatedNetwork(experiment.topology, tmp_path, "user", KernelFeatures(False, False, False))
    commands = Commands(
        *(tmp_path / "control", RunLayout(tmp_path), experiment.topology, control),
        *(lambda _node: "", lambda: None, lambda: 0.2),
    )
    network = RunningNetwork({}, control, unsettled=lambda: None, check=lambda: None, commands=commands)
    with (
        closing(Driver({}, [])) as driver,
        pytest.raises(TypeError, match=r"Unheard\(at_s=1\.0\): is neither a fault nor an event"),
    ):
        clock = EmulationClock(RunLayout(tmp_path), tmp_path / "page", [])
        watch = LagWatch(clock, [], Limits(1, 1, 30.0, 1.0))
        play(driver, experiment, Workload(), network, clock, watch, show=lambda _: None, hold=False)


@pytest.mark.parametrize("action", ["unheard", "link_down"])
def test_an_action_of_no_application_is_an_error_in_a_workload(action: str) -> None:
    with pytest.raises(ValueError, match=f"action '{action}': expected set_predicate or subscribe or unsub"):
        Item(1.0, 0, action)


def test_steps_are_in_order_of_time() -> None:
    class Network:
        done: list[tuple[int, int, bool]]

        def __init__(self) -> None:
            self.done = []

        def set_link(self, u: int, v: int, up: bool) -> None:
            self.done.append((u, v, up))

        def set_node(self, node: int, up: bool) -> None:
            raise AssertionError(f"node {node} {up}")

        def shape_links(self, properties: Mapping[str, float | None]) -> None:
            raise AssertionError(f"all links {properties}")

        def shape_link(self, u: int, v: int, properties: Mapping[str, float | None]) -> Link:
            raise AssertionError(f"link {u}-{v} {properties}")

    network = Network()
    steps = steps_of([LinkFlap(1.0, (0, 1), 5.0), LinkDown(2.0, (2, 3))])
    for _, apply in steps:
        apply(network)
    assert [at_s for at_s, _ in steps] == [1.0, 2.0, 6.0]
    assert network.done == [(0, 1, False), (2, 3, False), (0, 1, True)]


class Parts:
    """Notes what is done to parts."""

    def __init__(self) -> None:
        self.done: list[tuple[str, str, int | None]] = []

    def stop(self, part: str, node: int | None) -> None:
        self.done.append(("stop", part, node))

    def resume(self, part: str, node: int | None) -> None:
        self.done.append(("resume", part, node))

    def kill(self, part: str, node: int | None) -> None:
        self.done.append(("kill", part, node))

    def start(self, part: str, node: int | None) -> None:
        self.done.append(("start", part, node))

    def exhaust(self, node: int) -> None:
        self.done.append(("exhaust", "descriptors", node))

    def replenish(self, node: int) -> None:
        self.done.append(("replenish", "descriptors", node))

    def kill_application(self, node: int, app: str) -> None:
        self.done.append(("kill", app, node))


@pytest.mark.parametrize("action", PART_FAULTS)
def test_a_part_that_goes_comes_back_when_the_event_ends(tmp_path: Path, action: str) -> None:
    experiment = _load(tmp_path, HEAD + _section(action, 10))
    parts = Parts()
    steps = part_steps_of(experiment.events)
    for _, apply in steps:
        apply(parts)
    node = 3 if "\nnode = 3" in _section(action, 10) else None
    expected = {
        "captures_kill": [("kill", "captures", None)],
        "application_kill": [("kill", "board", 3)],
        "descriptors_exhausted": [("exhaust", "descriptors", 3), ("replenish", "descriptors", 3)],
    }.get(action)
    if expected is None:
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


def test_switches_of_links_with_properties_are_restarted(tmp_path: Path) -> None:
    """`tests/emulation/test_network.py` has their properties afterwards."""
    text = HEAD.replace('generator = "ring"\nnodes = 5', "link = [{ u = 0, v = 1, delay_ms = 3 }]")
    text += _section("switches_restart", 10).replace("node = 3", "node = 1")
    assert _load(tmp_path, text).events[0].action == "switches_restart"


@pytest.mark.parametrize(
    ("other", "at_s", "refused"),
    [
        ("switches_restart", 8, True),
        ("switches_restart", 11, False),  # away within the switch's own absence
        ("database_restart", 13, True),
        ("database_restart", 15, False),
        ("controller_restart", 8, False),
    ],
)
def test_a_switch_is_not_restarted_without_its_daemons(
    tmp_path: Path, other: str, at_s: float, refused: bool
) -> None:
    own = _section("switch_restart", 10)
    text = HEAD + own + _section(other, at_s).replace("away_s = 4", "away_s = 2")
    if not refused:
        assert len(_load(tmp_path, text).events) == 2
        return
    with pytest.raises(ExperimentError, match=f"switch_restart at 10 s, {other} at {at_s:g} s: expected"):
        _load(tmp_path, text)


@pytest.mark.parametrize(
    ("at_s", "node", "refused"), [(8, 3, True), (12, 3, True), (15, 3, False), (12, 2, False)]
)
def test_a_switch_is_not_restarted_while_it_is_away(
    tmp_path: Path, at_s: float, node: int, refused: bool
) -> None:
    text = HEAD + _section("switch_restart", 10)
    text += _section("switch_restart", at_s).replace("node = 3", f"node = {node}")
    if not refused:
        assert len(_load(tmp_path, text).events) == 2
        return
    with pytest.raises(
        ExperimentError, match=f"switch_restart at {max(10, at_s):g} s, and at {min(10, at_s):g} s"
    ):
        _load(tmp_path, text)


def test_a_router_with_limited_subscriptions_is_not_restarted(tmp_path: Path) -> None:
    text = HEAD + '[service]\nkind = "attention"\n' + _section("router_restart", 10)
    with pytest.raises(ExperimentError, match="its applications cannot ask again"):
        _load(tmp_path, text)
