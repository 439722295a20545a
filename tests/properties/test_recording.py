"""The replay of a recording gives the router that made it, after any events."""

from __future__ import annotations

import random
import struct
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from router.clock.clock import ExperimentClock, Reading
from router.predicates import Constraint, Filter, Message, Operator, Predicate, Type
from router.predicates.parser import parse_predicate
from router.protocol.events import (
    Action,
    ApplicationGone,
    Event,
    HandlingTime,
    RequestUpdate,
    ServiceAction,
    Settle,
    Tick,
)
from router.protocol.options import CONTENTS, SCHEMES, RouterOptions
from router.protocol.schemes import Row
from router.protocol.services.attention.dissemination import AttentionOptions
from router.recording import actions, events
from router.recording.actions import describe_actions, encode_actions
from router.recording.events import describe_event
from router.recording.file import Origin, RecordedEvent, Recorder, Recording, RecordingError
from router.recording.replay import check, describe, state_at
from tests.support.attention_network import ANY_OPTIONS, AttentionNetwork, play as play_attention
from tests.support.network_cases import PREDICATES, SEEDS, STEPS, Steps, World, play, worlds
from tests.support.protocol_network import Graph, Network, random_graph
from tests.support.router_tables import predicates_of

EPOCH_NS = 10**18
#: Experiment seconds per wall second.
RATE = 8.0
OPTIONS = RouterOptions(
    sr_timeout_s=1.0,
    ur_freshness_s=3.0,
    ra_jitter_s=0.1,
    ra_min_interval_s=0.2,
    sr_policy="count",
    sr_threshold=3,
)

#: Every scheme, every content.
VARIANTS = (
    *(replace(OPTIONS, covering=covering) for covering in CONTENTS),
    replace(OPTIONS, reliable_control=True),
    *(
        RouterOptions(scheme=name) if not scheme.sends_requests else replace(OPTIONS, scheme=name)
        for name, scheme in SCHEMES.items()
    ),
)


class _Clock(ExperimentClock):
    """The clock of a network whose time the test moves."""

    def __init__(self, network: RecordedNetwork) -> None:
        super().__init__(RATE)
        self._network = network

    def reading(self) -> Reading:
        return Reading(self._network.now, self._network.wall_ns, RATE)


class _Recorded(Network):
    """A network whose routers are recorded."""

    recorders: dict[int, Recorder]

    def handle(self, node: int, event: Event) -> list[Action]:
        self.recorders[node].event(event, self.now)
        actions = super().handle(node, event)
        self.recorders[node].actions(event, actions)
        return actions

    def close(self, in_order: bool = True) -> None:
        for recorder in self.recorders.values():
            if in_order:
                recorder.end()
            recorder.close()


class RecordedNetwork(_Recorded):
    """A network whose routers are recorded in `folder`.

    Attributes:
        history: node -> time, epoch and table after each event.
    """

    def __init__(self, graph: Graph, options: RouterOptions, seed: int, folder: Path) -> None:
        self.now = 0.0
        self.history: dict[int, list[tuple[int, int, tuple[Row, ...]]]] = {n: [] for n in graph}
        self.recorders = {
            node: Recorder(folder / f"r{node}.rec", Origin(node, options, "naive", seed, 1), _Clock(self))
            for node in sorted(graph)
        }
        super().__init__(graph, options, seed)

    @property
    def wall_ns(self) -> int:
        return EPOCH_NS + round(self.now / RATE * 1e9)

    def handle(self, node: int, event: Event) -> list[Action]:
        actions = super().handle(node, event)
        router = self.routers[node]
        self.history[node].append((self.wall_ns, router.epoch, router.rows()))
        return actions


class RecordedAttention(_Recorded, AttentionNetwork):
    """The same with the attention-limited service, without a history."""

    def __init__(self, graph: Graph, options: AttentionOptions, seed: int, folder: Path) -> None:
        self.options = RouterOptions(service="attention", service_options=options)
        self.recorders = {
            node: Recorder(folder / f"r{node}.rec", Origin(node, self.options, "naive", seed, 1))
            for node in sorted(graph)
        }
        super().__init__(graph, options, seed)


@contextmanager
def a_folder() -> Iterator[Path]:
    """Makes a new folder for each example of Hypothesis."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@settings(max_examples=75)
@given(worlds(most=7, extra=6), STEPS, PREDICATES, st.booleans(), st.sampled_from(VARIANTS))
def test_a_replay_answers_as_the_router_did(
    world: World, steps: Steps, held: Predicate, ends: bool, options: RouterOptions
) -> None:
    seed, nodes, extra = world
    rng = random.Random(seed)
    graph = random_graph(rng, nodes, extra)
    with a_folder() as folder:
        network = RecordedNetwork(graph, options, seed, folder)
        # Before there is a table messages are held.
        network.set_predicate(0, held)
        network.send(0, Message({"a": 1, "b": 2}))
        network.new_epoch()
        network.loss, network.reordering = 0.1, True
        play(network, steps)
        network.wait(0.7)
        network.new_epoch(tuple(rng.sample(sorted(graph.edges), 1)))
        play(network, steps)
        for number in range(10):
            network.send(number % nodes, Message({"a": number % 4, "text": 'é"\u2028'}))
            network.some_steps()
        network.wait(0.4)
        for event in (HandlingTime(1e-4), RequestUpdate(frozenset({1})), Settle(), ApplicationGone(1)):
            network.handle(0, event)
        network.settle()
        network.close(ends)
        for node, router in network.routers.items():
            path = folder / f"r{node}.rec"
            assert Recording(path).origin.options == options
            replayed = check(path)
            assert replayed.difference is None
            assert (replayed.cut is None) == ends
            assert replayed.router.counters == router.counters
            assert replayed.router.rows() == router.rows()
            history = network.history[node]
            assert replayed.inputs == len(history)
            times = sorted({t_ns for t_ns, _, _ in history} | {EPOCH_NS - 1, EPOCH_NS + 10**9, 2 * EPOCH_NS})
            for t_ns in times[:: 1 + len(times) // 4]:
                state = state_at(path, t_ns)
                past = [entry for entry in history if entry[0] <= t_ns]
                # The replay reads the wall clock with the precision of the router's own.
                epoch, table = past[-1][1:] if past else (0, ())
                assert (state.epoch, state.rows()) == (epoch, table)


@settings(max_examples=25)
@given(ANY_OPTIONS, SEEDS)
def test_a_replay_answers_as_the_router_of_the_attention_limited_service_did(
    options: AttentionOptions, seed: int
) -> None:
    rng = random.Random(seed)
    with a_folder() as folder:
        network = RecordedAttention(random_graph(rng, 5, 2), options, seed, folder)
        network.reordering, network.loss, network.duplication = True, 0.1, 0.1
        play_attention(network, rng, 50)
        network.close()
        for node, router in network.routers.items():
            path = folder / f"r{node}.rec"
            assert Recording(path).origin.options == network.options
            replayed = check(path)
            assert (replayed.difference, replayed.cut) == (None, None)
            assert replayed.router.counters == router.counters
            assert len(list(describe(Recording(path)))) >= replayed.inputs


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The recording of a router that got a predicate, a message and a neighbour's advertisement."""
    return _recorded(tmp_path)


def _recorded(tmp_path: Path) -> Path:
    network = RecordedNetwork(random_graph(random.Random(3), 3, 1), RouterOptions(), 3, tmp_path)
    network.new_epoch()
    network.set_predicate(1, parse_predicate('class = "alert" and x > 3'))
    network.settle()
    network.send(0, Message({"class": "alert", "x": 4}))
    network.settle()
    network.close()
    return tmp_path / "r1.rec"


def test_wherever_it_is_cut_the_rest_can_be_read(path: Path, tmp_path: Path) -> None:
    whole = path.read_bytes()
    recording = Recording(path)
    inputs = list(recording.inputs())
    assert recording.cut is None
    cut = tmp_path / "cut.rec"
    read: list[int] = []
    for length in range(len(whole)):
        cut.write_bytes(whole[:length])
        try:
            short = Recording(cut)
        except RecordingError as error:
            assert str(error).startswith(str(cut))
            assert not read, "only the head cannot be missing"
            continue
        found = list(short.inputs())
        # Of the last one the answer may be missing.
        whole_inputs = inputs[: len(found)]
        if found and found[-1].actions is None:
            whole_inputs[-1] = replace(whole_inputs[-1], actions=None)
        assert found == whole_inputs
        assert short.cut is not None
        assert check(cut).difference is None
        read.append(len(found))
    assert read == sorted(read)
    assert set(read) == set(range(len(inputs) + 1))


def test_a_record_whose_type_a_kill_has_left_zero_is_distinguished_from_room(
    path: Path, tmp_path: Path
) -> None:
    """A router writes the type of a record last; behind it is the room of its window."""
    whole = path.read_bytes()
    inputs = list(Recording(path).inputs())
    cut, at = tmp_path / "cut.rec", struct.calcsize("<8sBI") + struct.unpack_from("<I", whole, 9)[0]
    reasons = set()
    while at < len(whole):
        code, length = struct.unpack_from("<BI", whole, at)
        end = at + 5 + length
        for written in {at + 1, at + 2, (at + end) // 2, end}:
            cut.write_bytes(whole[:at] + b"\0" + whole[at + 1 : written].ljust(4_096, b"\0"))
            left = Recording(cut)
            found = list(left.inputs())
            assert [each.event for each in found] == [each.event for each in inputs[: len(found)]]
            assert check(cut).difference is None
            has_more = bool(whole[at + 1 : written].strip(b"\0"))
            reasons.add((has_more, left.cut))
        at = end
    assert code == 66
    assert reasons == {
        (False, "the router did not end in order"),
        (True, "the router was killed while it wrote a record, which does not count"),
    }


def test_the_first_difference_is_named(path: Path, tmp_path: Path) -> None:
    whole = path.read_bytes()
    other = tmp_path / "other.rec"
    # The live router passed a message up to application 1; let it have been application 7.
    delivered = struct.pack("<HI", 1, 1)
    assert whole.count(delivered) == 1
    other.write_bytes(whole.replace(delivered, struct.pack("<HI", 1, 7)))
    difference = check(other).difference
    assert difference is not None
    assert 'MSG 0/4294967297, epoch 1, hop limit 64: class = "alert", x = 4; live: deliver' in difference
    assert "to applications 7: " in difference.partition("replayed: ")[0]
    assert "to applications 1: " in difference.partition("replayed: ")[2]
    # Another seed, or another incarnation, is another router.
    other.write_bytes(whole.replace(b'"incarnation":1', b'"incarnation":2'))
    difference = check(other).difference
    assert difference is not None
    assert difference.startswith("event 1, at 0.000000 s: started; live: send to the controller: HELLO 1/1")


def _another_kind(data: bytes) -> bytes:
    """The first record after the head is no longer that of a clock."""
    first = data.index(b"}", data.index(b'"incarnation"')) + 1
    return data[:first] + b"\x63" + data[first + 1 :]


def _without(kind: int, number: int) -> Callable[[bytes], bytes]:
    """Takes the records of one kind out, but for the first `number`."""

    def damage(data: bytes) -> bytes:
        (length,) = struct.unpack_from("<I", data, 9)
        at = 13 + length
        kept, seen = data[:at], 0
        while at < len(data):
            found, length = struct.unpack_from("<BI", data, at)
            seen += found == kind
            if found != kind or seen <= number:
                kept += data[at : at + 5 + length]
            at += 5 + length
        return kept

    return damage


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (_without(65, 1), "byte [0-9]+: the event before has no answer"),
        (_without(1, 0), "byte [0-9]+: an answer to no event"),
        (lambda data: data + data[-5:], "byte [0-9]+: a record after the end"),
        (lambda _data: b"", "not the recording of a router"),
        (lambda data: b"PK" + data[2:], "not the recording of a router"),
        (lambda data: data[:8] + b"\x09" + data[9:], "a recording of version 9; expected 4"),
        (lambda data: data.replace(b'"matcher"', b'"patcher"'), "parameters of the router"),
        (lambda data: data.replace(b'"hop_limit":64', b'"hop_limit":99999'), "parameters of the router"),
        (_another_kind, "no record is of type 99"),
        (lambda data: data.replace(b'"alert"', b'"al\xffrt"'), "codec can't decode"),
    ],
)
def test_what_is_no_recording_is_refused(path: Path, damage: Callable[[bytes], bytes], problem: str) -> None:
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(RecordingError, match=f"^{path}.*{problem}"):
        list(Recording(path).inputs())


@pytest.mark.parametrize("seed", range(4))
def test_damaged_bits_are_differences_or_named(path: Path, seed: int) -> None:
    """Whatever is wrong in it: the answers differ, or the error names the file; nothing else comes out."""
    rng, whole = random.Random(seed), path.read_bytes()
    noticed = 0
    for _ in range(200):
        data = bytearray(whole)
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(data)
        for read in (_noticed, lambda path: list(describe(Recording(path)))):
            try:
                noticed += bool(read(path))
            except RecordingError as error:
                noticed += 1
                assert str(error).startswith(str(path))
    assert noticed > 100


def _noticed(path: Path) -> bool:
    replayed = check(path)
    assert "ActionKind" not in str(replayed.difference)
    return (replayed.difference, replayed.cut) != (None, None)


def test_every_event_and_answer_can_be_read_by_people(path: Path) -> None:
    inputs = Recording(path).inputs()
    lines = [line for given in inputs for line in (describe_event(given.event), *_answers(given))]
    assert lines[0] == "started"
    assert 'application 1: set_predicate class = "alert" and x > 3' in lines
    assert any(line.startswith("send through interfaces 1") and "RA 1/" in line for line in lines)
    assert any(line.startswith("deliver 0/4294967297 to applications 1") for line in lines)


def test_a_predicate_that_needs_fragments(tmp_path: Path) -> None:
    # By default a router refuses an application so heavy a predicate.
    options = RouterOptions(predicate_weight=200_000)
    network = RecordedNetwork(random_graph(random.Random(1), 2, 0), options, 1, tmp_path)
    network.new_epoch()
    network.settle()
    network.set_predicate(0, Predicate(tuple(_named(f"{n}{'x' * 65_000}") for n in range(2))))
    network.settle()
    network.close()
    assert check(tmp_path / "r0.rec").difference is None
    replayed = check(tmp_path / "r1.rec")
    assert replayed.difference is None
    assert predicates_of(replayed.router) == predicates_of(network.routers[1]) != {}


def _named(text: str) -> Filter:
    return Filter((Constraint("name", Type.STRING, Operator.EQ, text),))


def _answers(given: RecordedEvent) -> list[str]:
    assert given.actions is not None
    return describe_actions(given.event, given.actions)


def test_each_type_of_event_and_action_has_a_code_of_its_own() -> None:
    assert len(events._BY_CODE) == len(events._FORMATS)
    codes = [*actions._ActionType, *actions.SERVICE_ACTIONS.values()]
    assert len(set(codes)) == len(codes)


def test_an_action_that_recordings_do_not_know_is_named() -> None:
    class Foreign(ServiceAction):
        def record(self) -> dict[str, Any]:
            return {}

    with pytest.raises(KeyError, match="Foreign"):
        encode_actions(Tick(), [Foreign()])
