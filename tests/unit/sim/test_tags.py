"""A simulation whose frames are tagged: the same deliveries and tables, and captures of authentic frames."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from captures.pcap.reader import PcapReader
from captures.rundir import RunLayout
from router.privacy import read_keys
from router.security.signatures import PublicKeys, read_public_keys
from router.wire.format import OF_CONTROLLER, REPLIES, SIGNED_TYPES, Flags
from router.wire.frames import FrameType
from router.wire.header import CONTROLLER_SOURCE, ROUTER_DESTINATION, node_address, sender_of
from tests.support.applications import application_events
from tests.support.guarded import guard, opened
from tests.support.simulated import simulated
from tests.support.whole_frames import decode

EXPERIMENT = Path(__file__).with_name("tagged.toml").read_text()
WITHOUT_REQUESTS = EXPERIMENT.replace('sr_policy = "periodic"\nsr_period_s = 10\n', 'sr_policy = "never"\n')


def _simulate(folder: Path, mode: str, more: str = "") -> RunLayout:
    folder.mkdir()
    path = folder / "experiment.toml"
    experiment = EXPERIMENT if '"drp"' not in more and '"ips"' not in more else WITHOUT_REQUESTS
    path.write_text(experiment + f'[security]\nmode = "{mode}"\n{more}')
    return simulated(path, folder / "runs")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, RunLayout]:
    folder = tmp_path_factory.mktemp("runs")
    return {mode: _simulate(folder / mode, mode) for mode in ("off", "mac", "signed")}


def _deliveries(run: RunLayout) -> list[tuple[int, int, int]]:
    events = application_events(run.path)
    return sorted((e["source"], e["seq"], e["node"]) for e in events if e["event"] == "deliver")


def _counters(run: RunLayout) -> dict[str, Any]:
    counters: dict[str, Any] = json.loads(run.routers_counters.read_text())
    return counters


@pytest.mark.parametrize("mode", ["mac", "signed"])
def test_deliveries_tables_and_counts_are_those_without_tags(runs: dict[str, RunLayout], mode: str) -> None:
    assert len(_deliveries(runs["off"])) > 10
    assert _deliveries(runs[mode]) == _deliveries(runs["off"])
    off, mac = _counters(runs["off"]), _counters(runs[mode])
    longer = {"bytes_received", "bytes_sent"}
    for node in off:
        assert mac[node].keys() == off[node].keys()
        assert {k: v for k, v in mac[node].items() if k not in longer} == {
            k: v for k, v in off[node].items() if k not in longer
        }
        assert all(mac[node][name] > off[node][name] for name in longer)


@pytest.mark.parametrize("mode", ["mac", "signed"])
def test_every_captured_frame_is_authentic_at_its_receiver(runs: dict[str, RunLayout], mode: str) -> None:
    run = runs[mode]
    ring = read_keys(run.network_keys)
    frames = 0
    for node in range(5):
        receiver = guard(node_address(node), ring)
        receiver.windows.floor = 0
        for record in PcapReader(run.capture(f"host-{node}")).records():
            data = bytes(record.data)
            assert data[16] & Flags.TAGGED
            if data[6:12] != node_address(node):
                frames += 1
                opened(receiver, data)
            else:
                assert data[:6] != ROUTER_DESTINATION
                assert data[6:12] != CONTROLLER_SOURCE
    assert frames > 100


def test_a_network_without_security_has_no_keys_and_no_tags(runs: dict[str, RunLayout]) -> None:
    run = runs["off"]
    assert not run.network_keys.exists()
    records = list(PcapReader(run.capture("host-0")).records())
    assert records
    assert not any(record.data[16] & Flags.TAGGED for record in records)


def test_every_frame_of_an_issuer_is_signed(runs: dict[str, RunLayout]) -> None:
    run = runs["signed"]
    keys = PublicKeys(read_public_keys(run.signing_keys))
    seen: Counter[FrameType] = Counter()
    for node in range(5):
        for record in PcapReader(run.capture(f"host-{node}")).records():
            data = bytes(record.data)
            frame = decode(data[14:])
            if frame.type in SIGNED_TYPES:
                sender = sender_of(data)
                assert sender is not None
                of_sender = frame.type in REPLIES | OF_CONTROLLER
                assert keys.stands(frame, sender if of_sender else frame.issuer)
                seen[frame.type] += 1
    assert set(seen) == SIGNED_TYPES - {FrameType.XMSG, FrameType.XRA, FrameType.XUR}


def test_every_copy_of_a_fragment_is_a_replay(tmp_path: Path) -> None:
    path = tmp_path / "experiment.toml"
    text = f'text = "{"x" * 5000}"'
    path.write_text(
        "seed = 1\nduration_s = 9\ntime_scale = 1\nworkload = false\n"
        '[security]\nmode = "mac"\n[oracle]\nin_flight_window_s = 1\n'
        '[topology]\nname = "pair"\nlink = [{ u = 0, v = 1, duplicate_percent = 50 }]\n'
        '[[events]]\nat_s = 0\naction = "set_predicate"\nnode = 1\npredicate = "x = 1"\n'
        + "".join(
            f'[[events]]\nat_s = {at_s}\naction = "send_message"\nnode = 0\n'
            f"message = {json.dumps('x = 1, ' + text)}\n"
            for at_s in (4, 5, 6)
        )
    )
    run = simulated(path, tmp_path / "runs")
    assert len(_deliveries(run)) == 3
    records = PcapReader(run.capture("host-1")).records()
    copies = {data: seen - 1 for data, seen in Counter(bytes(each.data) for each in records).items()}
    assert sum(seen for data, seen in copies.items() if len(data) > 1400) > 0
    assert _counters(run)["1"]["refused"]["0"]["replayed"] == sum(copies.values())


@pytest.mark.parametrize(
    "more",
    [
        '[routing]\nscheme = "drp"\n',
        '[routing]\nscheme = "pif-classes"\n',
        '[routing]\nscheme = "ips"\n',
        '[privacy]\nmode = "bloom"\n',
    ],
)
def test_signatures_stand_in_every_scheme_and_where_frames_are_private(tmp_path: Path, more: str) -> None:
    """Routers write destinations on the way, classes into URs, and encoded predicates and messages."""
    off, signed = (_simulate(tmp_path / mode, mode, more) for mode in ("off", "signed"))
    assert len(_deliveries(off)) > 10
    assert _deliveries(signed) == _deliveries(off)
    for node, counters in _counters(signed).items():
        assert "refused" not in counters
        assert counters.get("dropped") == _counters(off)[node].get("dropped")
