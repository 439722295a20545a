"""A1: from the weight of B_m to the number of attributes."""

from __future__ import annotations

import math

from router.predicates.encoded.model import Suite
from testbed.attacks.model import Attack, Knowledge, Outcome, Seen, Truth


def strings_in(weight: int, suite: Suite) -> float:
    """The expected number of strings of a set of this weight: t = -(m/k) ln(1 - X/m)."""
    full = min(weight, suite.bits - 0.5)
    return -suite.bits / suite.hashes * math.log(1 - full / suite.bits)


class Weight(Attack):
    doc = "The number of bits set estimates the number of strings, and with it that of attributes."
    target = "numbers of attributes of messages"

    def run(self, seen: Seen, knowledge: Knowledge, truth: Truth) -> Outcome:
        guesses = [
            round(strings_in(bits.bit_count(), seen.suite) / knowledge.strings_an_attribute)
            for bits in seen.messages
        ]
        right = sum(guess == number for guess, number in zip(guesses, truth.attributes, strict=True))
        return Outcome(len(guesses), right, max(knowledge.attributes.values(), default=0.0))
