"""Attacks on captures: frames on several links, fragments, other frames, another key; and on a run folder."""

from __future__ import annotations

import json
import random
import re
import stat
from pathlib import Path

import pytest

from captures.rundir import RunLayout
from router.predicates import Constraint, Filter, Message, Operator, Predicate, Type
from router.predicates.encoded import ANY_FILTER, BloomPredicate
from router.predicates.encoded.encoder import Hardening
from router.predicates.parser import parse_predicate
from router.privacy import KeyRing, write_keys
from router.privacy.member import Member
from router.wire.codec import fragment
from router.wire.frames import Frame, FrameType, SenderRequest
from router.wire.header import ETHERTYPE, node_address
from testbed.cli.main import main
from testbed.evaluation.attacks import Traffic, knowledge_of
from testbed.evaluation.attacks.attacks import ATTACKS
from testbed.evaluation.attacks.captured import Captured, material, read_captures
from testbed.experiments.config.load import find_experiment, load_experiment
from testbed.experiments.workload.generate import generate
from testbed.results.inputs import write_inputs
from tests.support.capture_files import pcap

_RING = KeyRing.new(random_bytes=random.Random(1).randbytes)
_FILTERS = [Filter((Constraint("x", Type.INTEGER, Operator.EQ, value),)) for value in range(40)]


def _ethernet(frame: Frame, sender: int) -> list[tuple[int, bytes]]:
    head = bytes(6) + node_address(sender) + ETHERTYPE.to_bytes(2, "big")
    return [(1_000, head + payload) for payload in fragment(frame)]


def _frames(hardening: Hardening) -> list[Frame]:
    member = Member(_RING, hardening, random.Random(2))
    advertised = member.encode(Predicate(tuple(_FILTERS)))
    found = [
        Frame(FrameType.XRA, 3, 1, 1, 8, BloomPredicate([*advertised.encoded, ANY_FILTER])),
        Frame(FrameType.SR, 3, 2, 1, 8, SenderRequest(1)),
    ]
    messages = [member.message(Message({"x": number % 40, "y": True})) for number in range(50)]
    found += [Frame(FrameType.XMSG, 4, number, 1, 8, message) for number, message in enumerate(messages)]
    other = Member(KeyRing.new(random_bytes=random.Random(9).randbytes), rng=random.Random(3))
    return [*found, Frame(FrameType.XMSG, 5, 1, 1, 8, other.message(Message({"z": 1})))]


def _write(folder: Path, frames: list[Frame]) -> list[Path]:
    for link in ("a", "b"):
        packets = [packet for frame in frames for packet in _ethernet(frame, 7)]
        (folder / f"{link}.pcap").write_bytes(pcap([*packets, (1_000, b"no frame")]))
    return sorted(folder.glob("*.pcap"))


def test_sets_are_read_once_with_their_meaning(tmp_path: Path) -> None:
    captured = read_captures(_write(tmp_path, _frames(Hardening())))
    assert captured.frames == {"XRA": 2, "XMSG": 102}
    seen, truth, unread = material(captured, _RING.keys[0], _FILTERS)
    assert unread == 0 or captured.suites() == [seen.suite]
    assert len(seen.messages) == len(truth.messages) == 50
    assert set(truth.attributes) == {2}
    assert len(seen.filters) == 40
    assert all(len(strings or ()) == 1 for strings in truth.filters)
    for bits, strings in zip(seen.messages, truth.messages, strict=True):
        assert all(truth.bits_of(string) & ~bits == 0 for string in strings)
    encoding = _RING.keys[0].parameters.make_encoding()
    plain = Traffic([Message({"x": 1, "y": True})], [(1, _FILTERS[0])])
    outcome = ATTACKS["A1"].run(seen, knowledge_of(plain, encoding), truth)
    assert outcome.share > 0.9


def test_messages_are_in_the_order_of_their_captures() -> None:
    captured, member = Captured(), Member(_RING, rng=random.Random(2))
    bodies = [member.message(Message({"x": number})) for number in range(3)]
    for number, (source, times) in enumerate(((9, (30, 5)), (1, (20,)), (4, (10,)))):
        for time_ns in times:
            captured.take(Frame(FrameType.XMSG, source, 1, 1, 8, bodies[number]), time_ns)
    seen, _, unread = material(captured, _RING.keys[0], _FILTERS)
    assert unread == 0
    assert seen.messages == [bodies[number].bits for number in (0, 2, 1)]


def test_filters_that_lost_bits_have_a_meaning(tmp_path: Path) -> None:
    captured = read_captures(_write(tmp_path, _frames(Hardening(kept_hashes=6))))
    seen, truth, _ = material(captured, _RING.keys[0], _FILTERS)
    assert len(seen.filters) == 40
    assert all(strings is not None for strings in truth.filters)
    assert len(set(truth.filters)) == 40


def test_the_command_attacks_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    experiment = load_experiment(find_experiment("ring5"), {})
    workload = generate(experiment)
    run = RunLayout(tmp_path / "runs" / "private")
    run.captures_folder.mkdir(parents=True)
    write_inputs(run.path, experiment, workload, "simulated")
    member = Member(_RING, rng=random.Random(4))
    frames = []
    for number, item in enumerate(workload.items):
        if item.attributes is not None:
            body = member.message(Message(item.attributes))
            frames.append(Frame(FrameType.XMSG, item.node, number, 1, 8, body))
        elif item.predicate is not None:
            own = member.encode(parse_predicate(item.predicate))
            frames.append(Frame(FrameType.XRA, item.node, number, 1, 8, own))
    _write(run.captures_folder, frames)
    command = ["attack", str(run.path)]
    assert main(command) == 2
    assert "keys.json: No such file" in capsys.readouterr().err
    write_keys(run.path / "keys.json", _RING)
    assert stat.S_IMODE((run.path / "keys.json").stat().st_mode) == 0o600
    assert main([*command, "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    shares = {row["attack"]: row["share"] for row in rows}
    assert set(shares) == set(ATTACKS)
    assert shares["A5"] > 0.5 > shares["A2"]
    assert main([*command, "--attack", "A1"]) == 0
    assert {*re.findall(r"A\d", capsys.readouterr().out)} == {"A1"}
    assert main([*command, "--attack", "A9"]) == 2
    assert "expected one of A1, A2, A3, A4, A5" in capsys.readouterr().err
    # Of messages that `cbcb pub` sent in a run without a workload the public distribution is not known.
    text = run.experiment.read_text()
    assert experiment.duration_s == 60
    text_without_events = text.partition("[[events]]")[0]
    run.experiment.write_text(re.sub(r"first_message_s = .*", "first_message_s = 60", text_without_events))
    assert main(command) == 2
    assert "its workload has no messages" in capsys.readouterr().err
    run.experiment.write_text(text)
    other = tmp_path / "other.json"
    write_keys(other, KeyRing.new(random_bytes=random.Random(5).randbytes))
    assert main([*command, "--key-file", str(other)]) == 2
    assert "expected messages under a key of" in capsys.readouterr().err
