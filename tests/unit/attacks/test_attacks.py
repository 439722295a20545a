"""Each attack finds what is planted, and no more than a guess where there is nothing to find."""

from __future__ import annotations

import random

import numpy as np
import pytest

from router.predicates import Constraint, Filter, Message, Operator, Type
from router.predicates.covering.bitset import numbers_in
from router.predicates.encoded import Suite
from router.predicates.encoded.encoder import Hardening, StringHash
from router.predicates.encoded.encodings import ENCODINGS, Slides, equal
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
