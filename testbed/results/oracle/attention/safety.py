"""The safety rules: no delivery of a run may break one, with whatever faults.

A rule is a function that returns, for each delivery, whether it breaks the rule. Source: section 3.1 of the
attention paper: at most `max` publications before the lifetime expires, none older than the freshness, each
uploaded once, and (RQ) none twice to a subscription over its successive lifetimes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from testbed.results.oracle.attention.history import UNKNOWN, Booleans, Floats, History, Integers

#: Times are floats of microseconds and more.
_ROUNDING_S = 1e-6


class Joined:
    """The deliveries whose round and publication are recorded, with the fields of both.

    Args:
        history: of the run.
        slack_s: time that a frame may spend on links, which the age that routers know leaves out.
    """

    def __init__(self, history: History, slack_s: float) -> None:
        self.history = history
        self.slack_s = slack_s
        self.known: Booleans = (history.round_of != UNKNOWN) & (history.publication_of != UNKNOWN)
        rounds = history.rounds
        self.round: Integers = history.round_of[self.known]
        self.publication: Integers = history.publication_of[self.known]
        self.delivered_s: Floats = history.delivered_s[self.known]
        self.age_s: Floats = history.age_s[self.known]
        self.uploaded_s: Floats = history.uploaded_s[self.publication]
        self.begin_s: Floats = np.array([each.begin_s for each in rounds])[self.round]
        self.lifetime_s: Floats = np.array([each.lifetime_s for each in rounds])[self.round]
        self.freshness_s: Floats = np.array([each.freshness_s for each in rounds])[self.round]
        self.max: Integers = np.array([each.max for each in rounds], np.int64)[self.round]
        self.predicate: Integers = np.array([each.predicate for each in rounds], np.int64)[self.round]


def _unmatched(joined: Joined) -> Booleans:
    history = joined.history
    return ~history.selects[history.content[joined.publication], joined.predicate]


def _stale(joined: Joined) -> Booleans:
    age_s = joined.delivered_s - joined.uploaded_s
    freshness_s = joined.freshness_s + _ROUNDING_S
    return (joined.age_s > freshness_s) | (age_s > freshness_s + joined.slack_s)


def _outside_lifetime(joined: Joined) -> Booleans:
    since_s = joined.delivered_s - joined.begin_s
    return (since_s < -_ROUNDING_S) | (since_s > joined.lifetime_s + _ROUNDING_S)


def _above_max(joined: Joined) -> Booleans:
    order = np.argsort(joined.round, kind="stable")
    counts = np.bincount(joined.round, minlength=len(joined.history.rounds))
    first = np.cumsum(counts) - counts
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order)) - first[joined.round[order]]
    return place >= joined.max


def _repeated(joined: Joined) -> Booleans:
    """(RQ), and duplicates within a round."""
    rounds = joined.history.rounds
    numbers: dict[tuple[int, int], int] = {}
    subscription = np.array(
        [numbers.setdefault((each.home, each.subscription), len(numbers)) for each in rounds], np.int64
    )
    pairs = subscription[joined.round] * len(joined.history.source) + joined.publication
    found = np.ones(len(pairs), np.bool_)
    found[np.unique(pairs, return_index=True)[1]] = False
    return found


def _before_upload(joined: Joined) -> Booleans:
    return joined.delivered_s < joined.uploaded_s - _ROUNDING_S


#: Name of a violation -> whether each of the joined deliveries breaks the rule.
RULES: Mapping[str, Callable[[Joined], Booleans]] = {
    # The predicate of the subscription does not select it.
    "unmatched": _unmatched,
    # It was older than the freshness of the subscription.
    "stale": _stale,
    "outside_lifetime": _outside_lifetime,
    # The round had `max` publications before.
    "above_max": _above_max,
    # The subscription had it before, in this or in an earlier round (RQ).
    "repeated": _repeated,
    "before_upload": _before_upload,
}
#: A delivery whose round or publication no record mentions.
UNRECORDED = "unrecorded"


def violations(history: History, slack_s: float) -> dict[str, Integers]:
    """Returns the deliveries, as rows of the history, that break each rule.

    Args:
        slack_s: as of `Joined`.
    """
    joined = Joined(history, slack_s)
    rows = np.flatnonzero(joined.known)
    found = {UNRECORDED: np.flatnonzero(~joined.known)}
    return found | {name: rows[rule(joined)] for name, rule in RULES.items()}
