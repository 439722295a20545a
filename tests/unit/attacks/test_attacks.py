"""Each attack finds what is planted, and no more than a guess where there is nothing to find."""

from __future__ import annotations

import json
import random
import re
import stat
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from captures.rundir import RunLayout
from router.predicates import Constraint, Filter, Message, Operator, Predicate, Type
from router.predicates.covering.bitset import numbers_in
from router.predicates.encoded import ANY_FILTER, BloomPredicate, Suite
from router.predicates.encoded.encoder import Hardening, StringHash
from router.predicates.encoded.encodings import ENCODINGS, Slides, equal
from router.predicates.parser import parse_predicate
from router.privacy import KeyRing, write_keys
from router.privacy.member import Member
from router.wire.codec import fragment
from router.wire.frames import Frame, FrameType, SenderRequest
from router.wire.header import ETHERTYPE, node_address
from testbed.evaluation.attacks import (
    Knowledge,
    Seen,
    Traffic,
    Truth,
    draw_traffic,
    encoded,
    knowledge_of,
    public_knowledge,
    zipf_workload,
)
from testbed.evaluation.attacks.attacks import (
    ATTACKS,
    by_issuers,
    by_key,
    by_known_messages,
    by_patterns,
    by_weight,
    mined,
    strings_in,
)
from testbed.evaluation.attacks.captured import Captured, material, read_captures
from testbed.experiments.config.load import find_experiment, load_experiment
from testbed.experiments.workload.generate import generate
from testbed.results.inputs import write_inputs
from tests.support.capture_files import pcap

_SUITE = Suite(1, 512, 8, Slides.number)
_NONE = Hardening()


def _traffic(seed: int, messages: int = 300) -> Traffic:
    """Values of clearly different frequencies: value v is in a share of 2^-v of messages and filters."""
    source = random.Random(seed)

    def value() -> int:
        return next(v for v in range(1, 7) if v == 6 or source.random() < 0.5)

    attributes = [{f"x{n}": value() for n in range(source.randint(1, 6))} for _ in range(messages)]
    filters = [
        (subscriber, Filter((Constraint("x0", Type.INTEGER, Operator.EQ, value()),)))
        for subscriber in range(200)
    ]
    return Traffic([Message(each) for each in attributes], filters)


_KNOWLEDGE = knowledge_of(_traffic(99, 3_000), Slides())
#: What an attacker has seen of traffic that nothing hides, and its meaning.
_SEEN, _TRUTH = encoded(_traffic(1), _SUITE, Slides(), _NONE, 1)


def test_the_weight_gives_the_number_of_attributes() -> None:
    outcome = by_weight(_SEEN, _KNOWLEDGE, _TRUTH)
    assert outcome.share > 0.95 > 2 * outcome.baseline
    assert strings_in(0, _SUITE) == 0
    assert strings_in(512, _SUITE) < 1_000


def test_a_fill_hides_the_number_of_attributes() -> None:
    seen, truth = encoded(_traffic(1), _SUITE, Slides(), Hardening(fill=0.5), 1)
    outcome = by_weight(seen, _KNOWLEDGE, truth)
    assert outcome.share <= outcome.baseline


def test_a_fill_leaves_the_bits_of_a_frequent_string_together() -> None:
    seen, truth = encoded(_traffic(1), _SUITE, Slides(), Hardening(fill=0.5), 1)
    bits = list(numbers_in(truth.bits_of(equal("x0", 1))))
    rows = np.array([[message >> bit & 1 for bit in bits] for message in seen.messages])
    together = np.corrcoef(rows.T)[np.triu_indices(len(bits), 1)]
    # In standard deviations of unrelated bits.
    assert np.median(together) * len(rows) ** 0.5 > 5


def test_frequent_filters_are_recognised() -> None:
    outcome = by_issuers(_SEEN, _KNOWLEDGE, _TRUTH)
    assert outcome.targets == 6
    assert outcome.right >= 4


def test_filters_of_secret_subsets_are_not_recognised() -> None:
    seen, truth = encoded(_traffic(1), _SUITE, Slides(), Hardening(kept_hashes=4), 1)
    outcome = by_issuers(seen, _KNOWLEDGE, truth)
    assert outcome.targets > 100
    assert outcome.share < 0.03


def test_planted_patterns_are_mined_and_named() -> None:
    source, hashed = random.Random(3), StringHash(_SUITE, bytes(32))
    planted = {b"often": 0.5, b"seldom": 0.2}
    strings = []
    for number in range(600):
        own = {string for string, share in planted.items() if source.random() < share}
        strings.append(frozenset(own | {b"alone %d" % number, b"too %d" % number}))
    seen = Seen(_SUITE, [hashed.set_of(own) for own in strings])
    patterns = dict(mined(seen.messages, 512, 8))
    assert {hashed.bits_of(string) for string in planted} <= set(patterns)
    assert patterns[hashed.bits_of(b"often")] == pytest.approx(0.5, abs=0.07)
    knowledge = Knowledge({**planted, b"other": 0.01}, {}, {1: 1.0}, 2.0)
    outcome = by_patterns(seen, knowledge, Truth(strings, [1] * 600, [], hashed.bits_of))
    assert outcome.right == sum(string in own for own in strings for string in planted)
    # Bits that occur together by chance are no pattern.
    noise = [hashed.set_of(b"%d" % source.randrange(10**9) for _ in range(8)) for _ in range(600)]
    assert len(mined(noise, 512, 8)) <= 2


def test_random_bits_do_not_hide_a_frequent_string() -> None:
    source, hashed = random.Random(3), StringHash(_SUITE, bytes(32))
    often = hashed.bits_of(b"often")
    filled = [
        source.getrandbits(512) & source.getrandbits(512) | (often if source.random() < 0.3 else 0)
        for _ in range(1_000)
    ]
    patterns = dict(mined(filled, 512, 8))
    assert patterns[often] == pytest.approx(0.3, abs=0.05)
    assert len(patterns) <= 3


def test_known_messages_open_others() -> None:
    few, many = (by_known_messages(_SEEN, _KNOWLEDGE, _TRUTH, known=share) for share in (0.02, 0.5))
    assert many.share > 0.9
    assert few.share < many.share
    assert by_known_messages(_SEEN, _KNOWLEDGE, _TRUTH, known=0.0).right == 0


def test_the_key_opens_everything() -> None:
    assert by_key(_SEEN, _KNOWLEDGE, _TRUTH).share > 0.99


@pytest.mark.parametrize("name", sorted(ATTACKS))
@pytest.mark.parametrize("encoding", sorted(ENCODINGS))
def test_every_attack_works_on_little_and_on_drawn_traffic(name: str, encoding: str) -> None:
    chosen = ENCODINGS[encoding]()
    suite = Suite(1, 192, 7, chosen.number)
    nothing = Truth([], [], [], lambda _: 0)
    assert ATTACKS[name].run(Seen(suite, []), Knowledge({}, {}, {}, 1.0), nothing).share == 0
    workload = zipf_workload(60, 20, 30, 1)
    knowledge = public_knowledge(workload, chosen, sample=200)
    seen, truth = encoded(draw_traffic(workload), suite, chosen, _NONE, 1)
    outcome = ATTACKS[name].run(seen, knowledge, truth)
    assert 0 <= outcome.right <= outcome.targets
    assert 0 <= outcome.baseline <= 1


# Attacks on captures: frames on several links, fragments, other frames, another key; and on a run folder.


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


def test_the_command_attacks_a_run(
    tmp_path: Path, printed: Callable[..., str], refused: Callable[..., str]
) -> None:
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
    command = ["attack", run.path]
    assert "keys.json: No such file" in refused(*command)
    write_keys(run.path / "keys.json", _RING)
    assert stat.S_IMODE((run.path / "keys.json").stat().st_mode) == 0o600
    rows = [json.loads(line) for line in printed(*command, "--json").splitlines()]
    shares = {row["attack"]: row["share"] for row in rows}
    assert set(shares) == set(ATTACKS)
    assert shares["A5"] > 0.5 > shares["A2"]
    assert {*re.findall(r"A\d", printed(*command, "--attack", "A1"))} == {"A1"}
    assert "expected one of A1, A2, A3, A4, A5" in refused(*command, "--attack", "A9")
    # Of messages that `cbcb pub` sent in a run without a workload the public distribution is not known.
    text = run.experiment.read_text()
    assert experiment.duration_s == 60
    text_without_events = text.partition("[[events]]")[0]
    run.experiment.write_text(re.sub(r"first_message_s = .*", "first_message_s = 60", text_without_events))
    assert "its workload has no messages" in refused(*command)
    run.experiment.write_text(text)
    other = tmp_path / "other.json"
    write_keys(other, KeyRing.new(random_bytes=random.Random(5).randbytes))
    assert "expected messages under a key of" in refused(*command, "--key-file", other)
