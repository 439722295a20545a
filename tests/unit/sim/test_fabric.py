"""Links of the simulated network: delay, bandwidth, loss, fragments, failure, and counters."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from captures.pcap.reader import PcapReader
from captures.rundir import RunLayout
from captures.rundir.capture_list import Kept
from router.predicates import Message
from router.protocol.counters import Counters
from router.protocol.events import Event, FrameReceived
from router.wire.frames import Frame, FrameType
from router.wire.header import HOST_PORT, ports_of
from testbed.sim import EPOCH_NS, Agenda
from testbed.sim.fabric import Fabric
from testbed.sim.wires import HOP_NS, Captures
from tests.support.whole_frames import encode
from topos import Link, Node, Topology

_MS = 1_000_000


class _Network:
    """Two nodes and a link, and the events that arrive at the second node."""

    def __init__(self, run_dir: Path, captures: Kept = "all", **properties: float) -> None:
        (run_dir / "pcap").mkdir()
        self.run_dir = run_dir
        self.agenda = Agenda()
        link = Link(0, 1, index=0, u_port=1, v_port=1, **properties)  # type: ignore[arg-type]
        topology = Topology("pair", (Node(0), Node(1)), (link,))
        self.captures = Captures(topology, RunLayout(run_dir), captures)
        self.fabric = Fabric(topology, self.agenda, self.captures, seed=3)
        self.arrived: list[tuple[int, Event]] = []
        self.fabric.connect([self._take, self._take], lambda _node, _frame: None)

    def _take(self, event: Event) -> None:
        self.arrived.append((self.agenda.now, event))

    def send(self, *frames: Frame) -> None:
        for frame in frames:
            self.fabric.send(0, frozenset({1}), frame)

    def run(self, *frames: Frame) -> None:
        """Sends frames, and lets all happen that they cause."""
        self.send(*frames)
        while self.agenda.next_ns is not None:
            self.agenda.step()

    @property
    def seqs(self) -> list[int]:
        """The numbers of the frames that have arrived."""
        return [event.frame.seq for _, event in self.arrived if isinstance(event, FrameReceived)]

    def times(self) -> list[float]:
        """The milliseconds that messages took beside those of a hop, in order of their numbers."""
        found = dict(zip(self.seqs, (at for at, _ in self.arrived), strict=True))
        return [(found[seq] - HOP_NS) / _MS for seq in sorted(found)]

    def counters(self, node: int) -> dict[str, Any]:
        """The counters of a router whose core did nothing."""
        return self.fabric.router_counters(node, Counters())

    def ports(self) -> tuple[dict[str, int], dict[str, int]]:
        """Counters of the link's port at the sender and at the receiver."""
        counters = self.fabric.switch_counters()
        return counters[0][1], counters[1][1]


def _message(seq: int = 1, size: int = 10) -> Frame:
    return Frame(FrameType.MSG, 0, seq, 1, 9, Message({"text": "x" * size}))


def _messages(count: int, size: int = 10) -> list[Frame]:
    """Messages with the numbers from 1 on."""
    return [_message(seq, size) for seq in range(1, count + 1)]


def test_a_frame_takes_a_hop_and_the_delay_of_its_link(tmp_path: Path) -> None:
    network = _Network(tmp_path, delay_ms=2.5)
    frame = _message()
    network.send(frame)
    assert network.fabric.under_way == 1
    network.run()
    assert network.fabric.under_way == 0
    assert network.arrived == [(HOP_NS + 2_500_000, FrameReceived(0, frame))]


def test_captures_hold_the_bytes_that_an_emulation_would_send(tmp_path: Path) -> None:
    network = _Network(tmp_path)
    frame = _message()
    network.run(frame)
    network.captures.finish()
    stamps = {"host-0": 0, "link-0-1": HOP_NS, "host-1": HOP_NS}
    for name, at_ns in stamps.items():
        (record,) = PcapReader(tmp_path / "pcap" / f"{name}.pcap").records()
        assert record.time_ns == EPOCH_NS + at_ns, name
        assert record.data[14:] == encode(frame)
        assert ports_of(record.data[:6]) == {1}
        assert record.data[6:12] == bytes.fromhex("02cb00000000")


def test_every_fragment_is_a_frame_and_the_whole_arrives_once(tmp_path: Path) -> None:
    network = _Network(tmp_path)
    frame = _message(size=4000)
    network.run(frame)
    assert [event for _, event in network.arrived] == [FrameReceived(0, frame)]
    sender, receiver = network.ports()
    assert sender["tx_packets"] == receiver["rx_packets"] == 3
    assert sender["tx_bytes"] == receiver["rx_bytes"] > 4000
    assert network.counters(0)["frames_sent"] == {"MSG": 3}
    assert network.counters(1)["frames_received"] == {"MSG": 3}
    assert network.fabric.switch_counters()[1][HOST_PORT]["tx_packets"] == 3


def test_bandwidth_spaces_frames_once_the_bucket_is_empty(tmp_path: Path) -> None:
    network = _Network(tmp_path, bandwidth_mbps=8)  # a byte a microsecond
    length = 14 + len(encode(_message(size=1000)))
    network.run(*_messages(40, size=1000))
    times = [at for at, _ in network.arrived]
    free = 16_384 // length
    assert times[:free] == [HOP_NS] * free
    assert {b - a for a, b in zip(times[free:], times[free + 1 :], strict=False)} == {length * 1000}
    assert network.seqs == [*range(1, 41)]


def test_what_would_wait_too_long_for_bandwidth_is_dropped(tmp_path: Path) -> None:
    network = _Network(tmp_path, bandwidth_mbps=0.08)  # a byte takes 100 us
    network.run(*_messages(40, size=1000))
    sender, receiver = network.ports()
    assert 0 < len(network.arrived) < 40
    assert sender["tx_dropped"] == 40 - len(network.arrived)
    assert receiver["rx_packets"] == len(network.arrived)
    assert max(at for at, _ in network.arrived) <= HOP_NS + 400 * _MS


def test_loss_is_of_its_rate_and_the_same_again(tmp_path: Path) -> None:
    counts = []
    for run in ("a", "b"):
        (tmp_path / run).mkdir()
        network = _Network(tmp_path / run, loss_percent=25)
        network.run(*_messages(2000))
        counts.append(network.seqs)
        sender, receiver = network.ports()
        assert sender["tx_packets"] == 2000
        assert receiver["rx_packets"] == len(network.arrived)
    assert counts[0] == counts[1]
    assert 1400 < len(counts[0]) < 1600


def test_a_frame_that_lost_a_fragment_never_becomes_whole(tmp_path: Path) -> None:
    network = _Network(tmp_path, loss_percent=50)
    network.run(*_messages(100, size=4000))
    given_up = network.counters(1)["dropped"]["reassembly_timeout"]
    assert 0 < len(network.arrived) < 40
    assert 60 < given_up < 100
    assert len(network.arrived) + given_up <= 100


@pytest.mark.parametrize("back_up", [False, True])
def test_what_is_on_a_link_that_goes_down_is_lost(tmp_path: Path, back_up: bool) -> None:
    network = _Network(tmp_path, delay_ms=10)
    network.send(_message(1))
    assert network.fabric.set_link(1, 0, up=False)
    assert not network.fabric.set_link(0, 1, up=False)
    network.send(_message(2))
    if back_up:
        assert network.fabric.set_link(0, 1, up=True)
        network.send(_message(3))
    network.run()
    assert network.seqs == [3] * back_up
    sender, receiver = network.ports()
    assert sender["tx_dropped"] == 2
    assert sender["tx_packets"] == receiver["rx_packets"] == int(back_up)


def test_a_frame_that_does_not_encode_is_counted(tmp_path: Path) -> None:
    network = _Network(tmp_path)
    network.run(Frame(FrameType.MSG, 0, 1, 1, 300, Message({"x": 1})))
    assert network.arrived == []
    assert network.counters(0)["dropped"] == {"unencodable": 1}


@pytest.mark.parametrize(
    ("kept", "names"), [("all", ["link-0-1", "host-0", "host-1"]), ("links", ["link-0-1"]), ("none", [])]
)
def test_what_is_not_captured_is_counted_all_the_same(tmp_path: Path, kept: Kept, names: list[str]) -> None:
    network = _Network(tmp_path, kept)
    network.run(_message())
    network.captures.finish()
    captures = json.loads((tmp_path / "capture.json").read_text())
    assert [(capture["name"], capture["captured"]) for capture in captures] == [(name, 1) for name in names]
    assert sorted(path.stem for path in (tmp_path / "pcap").iterdir()) == sorted(names)
    assert len(network.arrived) == 1
    sender, receiver = network.ports()
    assert sender["tx_packets"] == receiver["rx_packets"] == 1


def test_jitter_is_drawn_around_the_delay(tmp_path: Path) -> None:
    network = _Network(tmp_path, delay_ms=10, jitter_ms=4)
    network.run(*_messages(400))
    times = network.times()
    assert 6 <= min(times) < 6.5
    assert 13.5 < max(times) <= 14
    assert 9.5 < sum(times) / len(times) < 10.5


def test_a_reordered_frame_is_not_delayed(tmp_path: Path) -> None:
    network = _Network(tmp_path, delay_ms=10, reorder_percent=25)
    network.run(*_messages(400))
    times = network.times()
    assert set(times) == {0.0, 10.0}
    assert 70 < times.count(0.0) < 130
    assert network.seqs != sorted(network.seqs)


def test_a_doubled_frame_is_received_twice(tmp_path: Path) -> None:
    network = _Network(tmp_path, duplicate_percent=25)
    network.run(*_messages(400))
    assert 470 < len(network.arrived) < 530
    assert set(network.seqs) == set(range(1, 401))
    sender, receiver = network.ports()
    assert sender["tx_packets"] == receiver["rx_packets"] == len(network.arrived)


def test_fragments_make_one_frame_however_they_come(tmp_path: Path) -> None:
    network = _Network(tmp_path, delay_ms=10, jitter_ms=10, duplicate_percent=50)
    network.run(*_messages(50, size=6_000))
    assert sorted(network.seqs) == list(range(1, 51))
    assert "reassembly_timeout" not in network.counters(1)["dropped"]
    assert network.fabric.under_way == 0


def test_a_link_that_is_reshaped_has_its_properties_from_then_on(tmp_path: Path) -> None:
    network = _Network(tmp_path)
    link = Link(0, 1, index=0, u_port=1, v_port=1, loss_percent=100)
    network.fabric.shape_link(link)
    network.run(_message(1))
    assert network.arrived == []
    network.fabric.shape_link(replace(link, loss_percent=None, delay_ms=3))
    network.run(_message(2))
    assert network.times() == [3.0]
