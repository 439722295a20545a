"""Judges each round: satisfied, starved or short, by what was uploaded in its lifetime.

Section 3.1: S is satisfied if N_S = min(M_S, max) (1), and starves if N_S < max <= M_S (2); a round of
neither is `short`. M_S counts the matching publications uploaded in the lifetime. A cache also serves older
publications, so a round counts as satisfied if N_S >= min(M_S, max).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from testbed.results.oracle.attention.history import UNKNOWN, Floats, History, Integers, Round


class Verdict(StrEnum):
    """The classes of rounds."""

    SATISFIED = "satisfied"
    STARVED = "starved"
    SHORT = "short"
    #: The experiment ended before the lifetime, and the round was not full.
    OPEN = "open"
    WITHDRAWN = "withdrawn"


@dataclass(frozen=True, slots=True)
class Result:
    """A round judged.

    Attributes:
        got, got_remote: publications delivered, and those of them that another router sent.
        matching: M_S as the paper defines it.
        eligible: publications that were matching and fresh at some time of the lifetime, and not delivered to
            the subscription in an earlier round.
        certain: M_S without uploads close to the ends of the lifetime, which may not have met the SUB, and
            without those too old at its end, until when a delayed push may wait.
        filled_s: seconds from the registration to the delivery that filled the box; None: never full.
    """

    round: Round
    verdict: Verdict
    got: int
    got_remote: int
    matching: int
    eligible: int
    certain: int
    filled_s: float | None


def results(history: History, end_s: float, window_s: float) -> list[Result]:
    """Judges every round.

    Args:
        end_s: end of the experiment, seconds of the routers' clock: later lifetimes are open.
        window_s: see `Result.certain`.
    """
    known = (history.round_of != UNKNOWN) & (history.publication_of != UNKNOWN)
    count = len(history.rounds)
    of_round = history.round_of[known]
    got = np.bincount(of_round, minlength=count)
    remote = np.bincount(of_round[history.remote[known]], minlength=count)
    last = np.full(count, -np.inf)
    np.maximum.at(last, of_round, history.delivered_s[known])
    times = [history.uploaded_s[history.selects[history.content, p]] for p in range(len(history.predicates))]
    earlier = _uploads_delivered_earlier(history, of_round, history.publication_of[known])
    found = []
    for position, each in enumerate(history.rounds):
        uploads, n_s = times[each.predicate], int(got[position])
        begin_s, deadline_s = each.begin_s, each.deadline_s
        matching = _between(uploads, begin_s, deadline_s)
        full = n_s >= each.max
        if full or (not each.withdrawn and deadline_s <= end_s and n_s >= min(matching, each.max)):
            verdict = Verdict.SATISFIED
        elif each.withdrawn:
            verdict = Verdict.WITHDRAWN
        elif deadline_s > end_s:
            verdict = Verdict.OPEN
        else:
            verdict = Verdict.STARVED if each.max <= matching else Verdict.SHORT
        oldest_s = begin_s - each.freshness_s
        eligible = _between(uploads, oldest_s, deadline_s)
        eligible -= _between(earlier.get(position, uploads[:0]), oldest_s, deadline_s)
        fresh_s = deadline_s - each.freshness_s
        certain = _between(uploads, max(begin_s, fresh_s) + window_s, deadline_s - window_s)
        filled_s = float(last[position]) - begin_s if full else None
        found.append(Result(each, verdict, n_s, int(remote[position]), matching, eligible, certain, filled_s))
    return found


def starved(found: list[Result]) -> list[Result]:
    """Returns the rounds that starve although enough publications could reach them, not counting those
    uploaded close to the ends of the lifetime or too old at its end."""
    return [each for each in found if each.verdict == Verdict.STARVED and each.certain >= each.round.max]


def _between(times: Floats, from_s: float, to_s: float) -> int:
    """Returns the number of sorted times in [from_s, to_s]."""
    if to_s < from_s:
        return 0
    low, high = np.searchsorted(times, from_s, "left"), np.searchsorted(times, to_s, "right")
    return int(high - low)


def _uploads_delivered_earlier(
    history: History, of_round: Integers, publications: Integers
) -> dict[int, Floats]:
    """Returns, for rounds after the first, the sorted upload times of what earlier rounds received."""
    order = np.argsort(of_round, kind="stable")
    counts = np.bincount(of_round, minlength=len(history.rounds))
    parts = np.split(history.uploaded_s[publications[order]], np.cumsum(counts)[:-1]) if len(counts) else []
    so_far: dict[tuple[int, int], Floats] = {}
    found: dict[int, Floats] = {}
    for position, each in enumerate(history.rounds):
        subscription = each.home, each.subscription
        before = so_far.get(subscription)
        if before is not None:
            found[position] = before
        own = parts[position]
        if len(own) or before is not None:
            so_far[subscription] = np.sort(own if before is None else np.concatenate((before, own)))
    return found
