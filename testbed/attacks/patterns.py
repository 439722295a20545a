"""A3: mining of bits that occur together in messages.

Source: Christen, Ranbaduge, Vatsalan, Schnell, "Precise and fast cryptanalysis for Bloom filter based
privacy-preserving record linkage", IEEE TKDE 2019. This is a simple form of it: patterns grow greedily
from the pair of bits with the greatest excess over chance.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from testbed.attacks.model import Attack, Knowledge, Outcome, Seen, Truth, by_frequency

#: Patterns that are mined.
PATTERNS = 80
#: A bit belongs to a pattern that this share of the messages with the pattern has.
_TOGETHER = 0.97
#: A pattern is in at least so many messages.
_SUPPORT = 5
#: Pairs of bits are considered whose excess over chance has at least so many standard deviations.
_EXCESS = 4.0


class Patterns(Attack):
    doc = "Patterns of bits that occur together are matched with strings of about their frequency."
    target = "strings of messages, each occurrence"

    def run(self, seen: Seen, knowledge: Knowledge, truth: Truth) -> Outcome:
        occurs = Counter(string for strings in truth.messages for string in strings)
        right = set()
        for own, string in assigned(mined(seen.messages, seen.suite.bits), knowledge):
            bits = truth.bits_of(string)
            if 2 * (own & bits).bit_count() > (own | bits).bit_count():
                right.add(string)
        identified = sum(occurs[string] for string in right)
        return Outcome(occurs.total(), identified, 1 / len(occurs) if occurs else 0.0)


def assigned(patterns: list[tuple[int, float]], knowledge: Knowledge) -> list[tuple[int, bytes]]:
    """Assigns a string to the bits of each pattern that no more frequent pattern within it has."""
    free = by_frequency(knowledge.message_strings)[: 2 * len(patterns)]
    found: list[tuple[int, bytes]] = []
    ordered = sorted(patterns, key=lambda pattern: (-pattern[1], pattern[0]))
    for number, (bits, support) in enumerate(ordered):
        own = bits
        for other, more in ordered[:number]:
            if other & bits == other and more > support:
                own &= ~other
        if own and free:
            distance = [abs(math.log(knowledge.message_strings[string] / support)) for string in free]
            found.append((own, free.pop(distance.index(min(distance)))))
    return found


def mined(messages: Sequence[int], bits: int) -> list[tuple[int, float]]:
    """Returns patterns of bits and the share of messages that have each."""
    rows = _matrix(messages, bits)
    count = len(rows)
    if count < _SUPPORT:
        return []
    together = rows.T.astype(np.float32) @ rows.astype(np.float32)
    alone = np.diag(together)
    expected = np.outer(alone, alone) / count
    excess = (together - expected) / np.sqrt(np.maximum(expected, 1e-9))
    excess[together < _SUPPORT] = 0
    np.fill_diagonal(excess, 0)
    found: dict[int, float] = {}
    while len(found) < PATTERNS:
        first, second = divmod(int(np.argmax(excess)), bits)
        if excess[first, second] < _EXCESS:
            break
        pattern, support = _grown(rows, [first, second])
        excess[np.ix_(pattern, pattern)] = 0
        excess[first, second] = excess[second, first] = 0
        if len(pattern) > 2:
            found.setdefault(sum(1 << int(bit) for bit in pattern), support / count)
    return list(found.items())


def _grown(rows: npt.NDArray[np.uint8], pattern: list[int]) -> tuple[list[int], int]:
    """Adds the bit that most messages with the pattern have, as long as nearly all have it."""
    those = rows[rows[:, pattern].all(1)]
    while True:
        shares = those.mean(0)
        shares[pattern] = 0
        best = int(np.argmax(shares))
        if shares[best] < _TOGETHER and len(pattern) > 4:
            return pattern, len(those)
        kept = those[those[:, best] == 1]
        # A pattern starts from a pair, which other strings set too: its first bits exclude those.
        if len(kept) < _SUPPORT or shares[best] < 0.5:
            return pattern, len(those)
        pattern, those = [*pattern, best], kept


def _matrix(messages: Sequence[int], bits: int) -> npt.NDArray[np.uint8]:
    octets = -(-bits // 8)
    joined = b"".join(message.to_bytes(octets, "little") for message in messages)
    packed = np.frombuffer(joined, np.uint8).reshape(len(messages), octets)
    return np.unpackbits(packed, axis=1, bitorder="little")[:, :bits]
