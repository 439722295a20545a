"""Judges a run of the attention-limited service: every delivery, every round, and the traffic of CBR.

Section 3.1: S is satisfied if N_S = min(M_S, max) (1), and starves if N_S < max <= M_S (2); a round of
neither is `short`. M_S counts the matching publications uploaded in the lifetime. A cache also serves older
publications, so a round counts as satisfied if N_S >= min(M_S, max).

The safety rules hold with whatever faults: at most `max` publications before the lifetime expires, none older
than the freshness, each uploaded once, and (RQ) none twice to a subscription over its successive lifetimes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np

from captures.rundir import RunLayout, oracle
from captures.rundir.applications import read_attention
from captures.rundir.clock import read_clock
from captures.rundir.controller import read_controller
from captures.rundir.faults import COMMANDS, FAULTS
from captures.rundir.files import RunFolderError
from captures.rundir.measures import read_routers_counters
from captures.rundir.oracle import JudgedRound, Judgement, filters_of
from testbed.controller.trees import Forest
from testbed.results.oracle.attention import ORIGINS, Booleans, Collector, Floats, History, Integers
from testbed.results.oracle.attention.baseline import exhaustive_cost
from testbed.results.oracle.connectivity import tree_changes

#: Outcomes of rounds (`JudgedRound`), in the order of the judgement.
OUTCOMES = SATISFIED, STARVED, SHORT, OPEN, WITHDRAWN = "satisfied", "starved", "short", "open", "withdrawn"


def results(
    history: History, end_s: float, window_s: float, zero_s: float = 0.0
) -> Iterator[tuple[JudgedRound, int]]:
    """Judges every round.

    Args:
        end_s: end of the experiment, seconds of the routers' clock: later lifetimes are open.
        window_s: time for which a frame may be under way.
        zero_s: experiment second 0 in seconds of the routers' clock.

    Yields:
        The answers about a round, and its certain M_S: without uploads close to the ends of the lifetime,
        which may not have met the SUB, and without those too old at its end, until when a delayed push may
        wait.
    """
    known = history.known
    count = len(history.rounds)
    of_round, publications = history.round_of[known], history.publication_of[known]
    got = np.bincount(of_round, minlength=count)
    remote = np.bincount(of_round[history.whence[known] == ORIGINS.index("remote")], minlength=count)
    last = np.full(count, -np.inf)
    np.maximum.at(last, of_round, history.delivered_s[known])
    times = [history.uploaded_s[history.selects[history.content, p]] for p in range(len(history.predicates))]
    by_round = publications[np.argsort(of_round, kind="stable")]
    delivered = np.split(history.uploaded_s[by_round], np.cumsum(got)[:-1])
    #: Subscription -> sorted upload times of what its rounds so far received.
    so_far: dict[tuple[int, int], Floats] = {}
    for position, each in enumerate(history.rounds):
        uploads, n_s = times[each.predicate], int(got[position])
        begin_s, deadline_s = each.begin_s, each.deadline_s
        matching = _between(uploads, begin_s, deadline_s)
        full = n_s >= each.max
        if full or (not each.withdrawn and deadline_s <= end_s and n_s >= min(matching, each.max)):
            outcome = SATISFIED
        elif each.withdrawn:
            outcome = WITHDRAWN
        elif deadline_s > end_s:
            outcome = OPEN
        else:
            outcome = STARVED if each.max <= matching else SHORT
        oldest_s = begin_s - each.freshness_s
        earlier = so_far.get((each.home, each.subscription), uploads[:0])
        so_far[each.home, each.subscription] = np.sort(np.concatenate((earlier, delivered[position])))
        eligible = _between(uploads, oldest_s, deadline_s) - _between(earlier, oldest_s, deadline_s)
        fresh_s = deadline_s - each.freshness_s
        certain = _between(uploads, max(begin_s, fresh_s) + window_s, deadline_s - window_s)
        yield (
            JudgedRound(
                node=each.home,
                app=each.app,
                subscription=each.subscription,
                round=each.number,
                predicate=history.predicates[each.predicate],
                max=each.max,
                begin_s=round(begin_s - zero_s, 9),
                lifetime_s=each.lifetime_s,
                freshness_s=each.freshness_s,
                outcome=outcome,
                got=n_s,
                got_remote=int(remote[position]),
                m_s=matching,
                m_s_eligible=eligible,
                filled_s=round(float(last[position]) - begin_s, 9) if full else None,
            ),
            certain,
        )


def starved(found: Iterable[tuple[JudgedRound, int]]) -> int:
    """Returns the number of rounds that starve although their certain M_S is enough, by `results`."""
    return sum(each["outcome"] == STARVED and certain >= each["max"] for each, certain in found)


def _between(times: Floats, from_s: float, to_s: float) -> int:
    """Returns the number of sorted times in [from_s, to_s]."""
    low, high = np.searchsorted(times, from_s, "left"), np.searchsorted(times, to_s, "right")
    return max(0, int(high - low))


#: Times are floats of microseconds and more.
_ROUNDING_S = 1e-6


def violations(history: History, slack_s: float) -> dict[str, Integers]:
    """Returns the deliveries, as rows of the history, that break each rule.

    Args:
        slack_s: time that a frame may spend on links, which the age that routers know leaves out.
    """
    import pandas as pd  # It takes half a second to load.

    known = history.known
    number, publication = history.round_of[known], history.publication_of[known]
    columns = ([each.begin_s, each.lifetime_s, each.freshness_s, each.max] for each in history.rounds)
    begin_s, lifetime_s, freshness_s, most = np.array([*columns], np.float64).reshape(-1, 4)[number].T
    predicate = np.array([each.predicate for each in history.rounds], np.int64)[number]
    subscriptions = [(each.home, each.subscription) for each in history.rounds]
    served = pd.DataFrame(subscriptions, columns=["home", "subscription"]).iloc[number]
    delivered_s, uploaded_s = history.delivered_s[known], history.uploaded_s[publication]
    since_s, age_s = delivered_s - begin_s, delivered_s - uploaded_s
    freshness_s = freshness_s + _ROUNDING_S
    broken: dict[str, Booleans] = {
        # The predicate of the subscription does not select it.
        "unmatched": ~history.selects[history.content[publication], predicate],
        # It was older than the freshness of the subscription.
        "stale": (history.age_s[known] > freshness_s) | (age_s > freshness_s + slack_s),
        "outside_lifetime": (since_s < -_ROUNDING_S) | (since_s > lifetime_s + _ROUNDING_S),
        # The round had `max` publications before.
        "above_max": pd.Series(number).groupby(number).cumcount().to_numpy() >= most,
        # The subscription had it before, in this or in an earlier round (RQ).
        "repeated": served.assign(publication=publication).duplicated().to_numpy(),
        "before_upload": age_s < -_ROUNDING_S,
    }
    rows = np.flatnonzero(known)
    # No record mentions the round or the publication.
    unrecorded = {"unrecorded": np.flatnonzero(~known)}
    return unrecorded | {name: rows[each] for name, each in broken.items()}


#: Deliveries that break a rule and are named.
_EXAMPLES = 5
#: Reasons of drops that lose nothing that a subscription may need: frames that came before, or too late.
_HARMLESS = frozenset({"sub_old", "pub_duplicate", "home_served", "overload_late"})

#: Faults beside which routers serve subscriptions all the same, to the end of the run: part, and what it met.
_HARMLESS_FAULTS = frozenset({("captures", "stopped"), ("captures", "resumed"), ("application", "killed")})


def judge(
    history: History, forest: Forest, end_s: float, window_s: float, undecided: str | None, zero_s: float = 0
) -> tuple[Judgement, list[JudgedRound]]:
    """Returns the answers about a run as a whole, and about its rounds.

    Args:
        forest: the broadcast trees, for CBR.
        end_s, window_s, zero_s: as of `results`.
        undecided: why starvation is no fault in this run; None: it is a fault.
    """
    found = list(results(history, end_s, window_s, zero_s))
    outcomes = Counter(each["outcome"] for each, _ in found)
    broken = violations(history, window_s)
    cost = exhaustive_cost(history.lifetimes(), history.uploads(), forest)
    judgement = Judgement(
        violations={rule: len(rows) for rule, rows in broken.items()},
        examples=list(islice(_examples(history, broken), _EXAMPLES)),
        outcomes={outcome: outcomes[outcome] for outcome in OUTCOMES},
        undecided=undecided,
        starved_decided=starved(found),
        publications=len(history.source),
        registrations=len(history.rounds),
        deliveries=len(history.round_of),
        deliveries_from=history.deliveries_from(),
        cbr_crossings=cost.publication_crossings,
        cbr_deliveries=cost.router_deliveries,
        cbr_control=cost.control_crossings,
    )
    return judgement, [each for each, _ in found]


def _examples(history: History, broken: Mapping[str, Integers]) -> Iterator[str]:
    for rule, rows in broken.items():
        for row in rows.tolist():
            home, subscription, number, source, seq = history.named[row].tolist()
            yield (
                f"{rule}: publication {source}/{seq} to subscription {home}/{subscription}, "
                f"round {number}, at {history.delivered_s[row]:.6f} s of the routers' clock"
            )


def write_judgement(
    run: RunLayout, forest: Forest, duration_s: float, window_s: float, undecided: str | None = None
) -> None:
    """Judges a run and writes the answers into its folder.

    Args:
        forest: the broadcast trees without failures.
        window_s: `oracle.in_flight_window_s` of the experiment, wall seconds.
        undecided: why starvation is no fault in the experiment; None: the records of the run decide.

    Raises:
        RunFolderError: a file of the run folder is missing or malformed.
    """
    collector, clock = Collector(filters_of), read_clock(run)
    # Records are written at or after the time that they give: the least late one is the closest.
    zero_s = -np.inf
    for where, record in read_attention(run):
        zero_s = max(zero_s, record["at_s"] - clock.experiment_at(record["t_ns"]))
        try:
            collector.take(record)
        except (OverflowError, ValueError) as error:
            raise RunFolderError(f"{where}: {error}") from error
    try:
        history = collector.history()
    except ValueError as error:
        raise RunFolderError(f"{run.service_folder}: {error}") from error
    zero_s = float(zero_s) if np.isfinite(zero_s) else 0.0
    judgement, rounds = judge(
        history,
        forest,
        end_s=zero_s + duration_s,
        window_s=window_s * max(clock.rates),
        undecided=undecided or _undecided(run),
        zero_s=zero_s,
    )
    oracle.SUBSCRIPTIONS.write(run, rounds)
    oracle.JUDGEMENT.write(run, judgement)


def _undecided(run: RunLayout) -> str | None:
    """Returns why the records of a run leave starvation undecided, or None."""
    faults = [each for each in FAULTS.read_all(run) if (each["part"], each["what"]) not in _HARMLESS_FAULTS]
    commands = COMMANDS.read_all(run)
    if faults:
        first = faults[0]
        of = f" of node {first['node']}" if "node" in first else ""
        return f"parts of the run did not work throughout: {first['part']}{of} {first['what']}"
    if commands:
        # A shell or a program in a node may do anything to the network.
        return f"the run was given commands: {commands[0]['command']}"
    counters = read_routers_counters(run)
    if tree_changes(event for _, event in read_controller(run.controller_log)):
        return "broadcast trees changed"
    return undecided_by(counters.values())


def undecided_by(counters: Iterable[Mapping[str, Any]]) -> str | None:
    """Returns why the counters of the routers leave starvation undecided, or None."""
    dropped: Counter[str] = Counter()
    evicted = socket_drops = 0
    for each in counters:
        dropped.update(each.get("dropped", {}))
        evicted += each.get("publications_evicted", 0)
        socket_drops += each.get("socket_drops", 0)
    harmful = {reason: count for reason, count in dropped.items() if count and reason not in _HARMLESS}
    if socket_drops:
        harmful["socket"] = socket_drops
    if harmful:
        return "routers dropped frames: " + ", ".join(f"{count} {name}" for name, count in harmful.items())
    return f"{evicted} publications were evicted from caches" if evicted else None
