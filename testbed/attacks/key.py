"""A5: the key of one member, an upper bound."""

from __future__ import annotations

from testbed.attacks.model import Attack, Knowledge, Outcome, Seen, SetScore, Truth

#: Messages that are opened: every one is opened alike.
_OPENED = 200


class WithKey(Attack):
    """Assumes that the attacker has the key: every string of the vocabulary is hashed and looked up."""

    doc = "With the key, every string that the attacker can list is looked up in every message."
    target = "strings of messages (wrong guesses count)"

    def run(self, seen: Seen, knowledge: Knowledge, truth: Truth) -> Outcome:
        dictionary = {string: truth.bits_of(string) for string in knowledge.message_strings}
        score = SetScore()
        for bits, strings in zip(seen.messages[:_OPENED], truth.messages[:_OPENED], strict=True):
            lacks = ~bits
            score.add((string for string, own in dictionary.items() if not own & lacks), strings)
        return score.outcome(knowledge)
