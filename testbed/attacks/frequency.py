"""A2: frequency ranking of filters of one string."""

from __future__ import annotations

from testbed.attacks.model import Attack, Knowledge, Outcome, Seen, Truth, by_frequency


class Frequency(Attack):
    doc = "Filters of at most k bits are ranked by the number of their issuers, and matched with known ranks."
    target = "distinct filters of one string"

    def run(self, seen: Seen, knowledge: Knowledge, truth: Truth) -> Outcome:
        issuers: dict[int, int] = {}
        meaning: dict[int, frozenset[bytes] | None] = {}
        for (_, bits), strings in zip(seen.filters, truth.filters, strict=True):
            if 0 < bits.bit_count() <= seen.suite.hashes:
                issuers[bits] = issuers.get(bits, 0) + 1
                meaning[bits] = strings
        ranked = sorted(issuers, key=lambda bits: (-issuers[bits], bits))
        guesses = dict(zip(ranked, by_frequency(knowledge.filter_strings), strict=False))
        right = sum(meaning[bits] == frozenset((string,)) for bits, string in guesses.items())
        candidates = max(len(knowledge.filter_strings), len(ranked))
        return Outcome(len(ranked), right, 1 / candidates if candidates else 0.0)
