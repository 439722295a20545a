"""A4: known plaintext for a share of the messages."""

from __future__ import annotations

from testbed.attacks.model import Attack, Knowledge, Outcome, Seen, SetScore, Truth


class KnownMessages(Attack):
    """Assumes that the attacker knows the content of the first messages.

    The bits of a string are those that all known messages with the string share. The string is then guessed
    to be in every message that has these bits.
    """

    doc = "The bits that the known messages with a string share are looked up in the others."
    target = "strings of the other messages (wrong guesses count)"

    def __init__(self, known: float = 0.1) -> None:
        self._known = known

    def run(self, seen: Seen, knowledge: Knowledge, truth: Truth) -> Outcome:
        known = round(self._known * len(seen.messages))
        shared: dict[bytes, int] = {}
        for bits, strings in zip(seen.messages[:known], truth.messages[:known], strict=True):
            for string in strings:
                shared[string] = shared.get(string, bits) & bits
        score = SetScore()
        for bits, strings in zip(seen.messages[known:], truth.messages[known:], strict=True):
            lacks = ~bits
            score.add((string for string, own in shared.items() if not own & lacks), strings)
        return score.outcome(knowledge)
