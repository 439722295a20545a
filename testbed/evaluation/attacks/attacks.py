"""The attacks: each guesses from what a router without the key sees, A5 with the key of a member.

Source of A3: Christen, Ranbaduge, Vatsalan, Schnell, "Precise and fast cryptanalysis for Bloom filter based
privacy-preserving record linkage", IEEE TKDE 2019, mine frequent sets of bits. This attack mines covariances,
which random bits do not hide: a share f of the messages has a string, and a bit of it is in another message
with a probability r, from other strings or a fill. Then bit i of the string is in a message with p_i =
f + (1 - f) r_i, and the covariance of bits i and j is f (1 - f) (1 - r_i) (1 - r_j) =
f / (1 - f) (1 - p_i) (1 - p_j), which gives f without r.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from router.predicates.encoded import Suite
from testbed.evaluation.attacks import Knowledge, Outcome, Seen, Truth, by_frequency


def strings_in(weight: int, suite: Suite) -> float:
    """The expected number of strings of a set of this weight: t = -(m/k) ln(1 - X/m)."""
    full = min(weight, suite.bits - 0.5)
    return -suite.bits / suite.hashes * math.log(1 - full / suite.bits)


def by_weight(seen: Seen, knowledge: Knowledge, truth: Truth) -> Outcome:
    """Estimates the number of strings, and with it that of attributes, from the bits set."""
    guesses = [
        round(strings_in(bits.bit_count(), seen.suite) / knowledge.strings_an_attribute)
        for bits in seen.messages
    ]
    right = sum(guess == number for guess, number in zip(guesses, truth.attributes, strict=True))
    return Outcome(len(guesses), right, max(knowledge.attributes.values(), default=0.0))


def by_issuers(seen: Seen, knowledge: Knowledge, truth: Truth) -> Outcome:
    """Ranks filters of at most k bits by the number of their issuers, and matches them with known ranks."""
    own = [bits for _, bits in seen.filters]
    issuers = Counter(bits for bits in own if 0 < bits.bit_count() <= seen.suite.hashes)
    meaning = dict(zip(own, truth.filters, strict=True))
    ranked = sorted(issuers, key=lambda bits: (-issuers[bits], bits))
    guesses = dict(zip(ranked, by_frequency(knowledge.filter_strings), strict=False))
    right = sum(meaning[bits] == frozenset((string,)) for bits, string in guesses.items())
    candidates = max(len(knowledge.filter_strings), len(ranked))
    return Outcome(len(ranked), right, 1 / candidates if candidates else 0.0)


#: Patterns that are mined.
PATTERNS = 80
#: A bit is in at least so many messages, and not in more than this share of them.
_SUPPORT, _COMMON = 5, 0.98
#: A pattern starts from a pair of bits whose covariance has at least so many standard deviations.
_START = 4.0
#: A bit belongs to a pattern if its covariances with the bits of the pattern have on average at least so many
#: standard deviations, ...
_JOIN = 2.5
#: ... and give at least this share of the odds f / (1 - f) that the pairs of the pattern give.
_LEVEL = 0.5

_Reals = npt.NDArray[np.float64]


def by_patterns(seen: Seen, knowledge: Knowledge, truth: Truth) -> Outcome:
    """Matches patterns of bits that occur together with strings of about their frequency."""
    occurs = Counter(string for strings in truth.messages for string in strings)
    right = set()
    for own, string in assigned(mined(seen.messages, seen.suite.bits, seen.suite.hashes), knowledge):
        bits = truth.bits_of(string)
        if 2 * (own & bits).bit_count() > (own | bits).bit_count():
            right.add(string)
    identified = sum(occurs[string] for string in right)
    return Outcome(occurs.total(), identified, 1 / len(occurs) if occurs else 0.0)


def assigned(patterns: Sequence[tuple[int, float]], knowledge: Knowledge) -> list[tuple[int, bytes]]:
    """Assigns to each pattern, the most frequent first, the free string of the nearest frequency."""
    free = by_frequency(knowledge.message_strings)[: 2 * len(patterns)]
    found: list[tuple[int, bytes]] = []
    for bits, share in sorted(patterns, key=lambda pattern: (-pattern[1], pattern[0])):
        if free:
            distance = [abs(math.log(knowledge.message_strings[string] / share)) for string in free]
            found.append((bits, free.pop(distance.index(min(distance)))))
    return found


def mined(messages: Sequence[int], bits: int, hashes: int) -> list[tuple[int, float]]:
    """Returns patterns of at most k bits, and the share of messages that have the string of each.

    Args:
        messages: B_m of each.
        bits: m.
        hashes: k.
    """
    count = len(messages)
    if count < _SUPPORT:
        return []
    octets = -(-bits // 8)
    joined = b"".join(message.to_bytes(octets, "little") for message in messages)
    packed = np.frombuffer(joined, np.uint8).reshape(count, octets)
    rows = np.unpackbits(packed, axis=1, bitorder="little")[:, :bits].astype(np.float32)
    share = rows.mean(0, dtype=np.float64)
    covariance = (rows.T @ rows).astype(np.float64) / count - np.outer(share, share)
    lacks = np.maximum(1 - share, 1 / count)
    odds = covariance / np.outer(lacks, lacks)
    spread = np.sqrt(np.maximum(share, 1 / count) * lacks)
    excess = covariance * math.sqrt(count) / np.outer(spread, spread)
    unusable = (share * count < _SUPPORT) | (share > _COMMON)
    excess[unusable] = excess[:, unusable] = -np.inf
    np.fill_diagonal(excess, -np.inf)
    starts = excess.copy()
    found: list[tuple[int, float]] = []
    while len(found) < PATTERNS:
        first, second = divmod(int(np.argmax(starts)), bits)
        if starts[first, second] < _START:
            break
        starts[first, second] = starts[second, first] = -np.inf
        pattern = _grown(excess, odds, [first, second], hashes)
        # With one or two hash functions, a pattern has no third bit.
        if len(pattern) >= min(max(2, hashes), max(3, hashes // 2)):
            level = _level(odds, pattern)
            found.append((sum(1 << int(bit) for bit in pattern), level / (1 + level)))
            # Each bit begins no second pattern; it may join one of another string.
            excess[np.ix_(pattern, pattern)] = -np.inf
            starts[pattern] = starts[:, pattern] = -np.inf
    return found


def _grown(excess: _Reals, odds: _Reals, pattern: list[int], hashes: int) -> list[int]:
    """Adds the bit of the greatest covariance with the pattern, until it has k bits or none belongs to it."""
    while len(pattern) < hashes:
        mean = excess[pattern].mean(0)
        mean[odds[pattern].mean(0) < _LEVEL * _level(odds, pattern)] = -np.inf
        best = int(np.argmax(mean))
        if mean[best] < _JOIN:
            break
        pattern = [*pattern, best]
    return pattern


def _level(odds: _Reals, pattern: list[int]) -> float:
    """The median of the odds f / (1 - f) that the pairs of a pattern give."""
    pairs = odds[np.ix_(pattern, pattern)][np.triu_indices(len(pattern), 1)]
    return max(float(np.median(pairs)), 1e-9)


def _recognised(
    bits_of: Mapping[bytes, int],
    messages: Sequence[int],
    present: Sequence[frozenset[bytes]],
    knowledge: Knowledge,
) -> Outcome:
    """Guesses that each string is in every message that has its bits.

    The baseline guesses the most frequent strings, as many as a message has on average.

    Args:
        bits_of: string -> B(x), as far as the attacker knows it.
        messages: B_m of each.
        present: S_m of each.
    """
    guesses = [
        frozenset(string for string, own in bits_of.items() if not own & ~message) for message in messages
    ]
    mean = sum(map(len, present)) / max(len(present), 1)
    usual = frozenset(by_frequency(knowledge.message_strings)[: round(mean)])
    (right, targets), (usual_right, usual_targets) = (
        (
            sum(len(guess & own) for guess, own in zip(found, present, strict=True)),
            sum(len(guess | own) for guess, own in zip(found, present, strict=True)),
        )
        for found in (guesses, [usual] * len(present))
    )
    return Outcome(targets, right, usual_right / usual_targets if usual_targets else 0.0)


def by_known_messages(seen: Seen, knowledge: Knowledge, truth: Truth, *, known: float = 0.1) -> Outcome:
    """Guesses from the content of the first messages, which the attacker knows.

    The bits of a string are those that all known messages with the string share. The string is then guessed
    to be in every message that has these bits.

    Args:
        known: the share of the messages that the attacker knows.
    """
    count = round(known * len(seen.messages))
    shared: dict[bytes, int] = {}
    for bits, strings in zip(seen.messages[:count], truth.messages[:count], strict=True):
        for string in strings:
            shared[string] = shared.get(string, bits) & bits
    return _recognised(shared, seen.messages[count:], truth.messages[count:], knowledge)


#: Messages that are opened: every one is opened alike.
_OPENED = 200


def by_key(seen: Seen, knowledge: Knowledge, truth: Truth) -> Outcome:
    """Hashes every string of the vocabulary with the key, and looks it up in every message."""
    dictionary = {string: truth.bits_of(string) for string in knowledge.message_strings}
    return _recognised(dictionary, seen.messages[:_OPENED], truth.messages[:_OPENED], knowledge)


@dataclass(frozen=True)
class Attack:
    """An attack.

    Attributes:
        run: attacks, and compares the guesses with the truth, which serves to count right guesses; attacks
            that assume more (known messages, the key) say so.
        target: the values that it identifies.
    """

    run: Callable[[Seen, Knowledge, Truth], Outcome]
    target: str

    @property
    def doc(self) -> str:
        """The attack in a sentence."""
        return (self.run.__doc__ or "").partition("\n")[0]

    def after(self, count: int, seen: Seen, knowledge: Knowledge, truth: Truth) -> Outcome:
        """Returns the result of the attack on the first `count` messages, and all filters."""
        part = replace(truth, messages=truth.messages[:count], attributes=truth.attributes[:count])
        return self.run(replace(seen, messages=seen.messages[:count]), knowledge, part)


ATTACKS = {
    "A1": Attack(by_weight, "numbers of attributes of messages"),
    "A2": Attack(by_issuers, "distinct filters of one string"),
    "A3": Attack(by_patterns, "strings of messages, each occurrence"),
    "A4": Attack(by_known_messages, "strings of the other messages (wrong guesses count)"),
    "A5": Attack(by_key, "strings of messages (wrong guesses count)"),
}
