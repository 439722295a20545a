"""Judges a run of the attention-limited service: every delivery, every round, and the traffic of CBR."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from captures.rundir import RunLayout
from captures.rundir.applications import read_attention
from captures.rundir.clock import read_clock
from captures.rundir.controller import read_controller
from captures.rundir.counters import read_routers_counters
from captures.rundir.faults import read_commands, read_faults
from captures.rundir.files import RunFolderError
from captures.rundir.oracle import JudgedRound, Judgement, filters_of, write_answers
from testbed.controller.trees import Forest
from testbed.results.oracle.attention import Collector, History, Integers
from testbed.results.oracle.attention.baseline import Cost, exhaustive_cost
from testbed.results.oracle.attention.outcomes import Result, Verdict, results, starved, violations
from testbed.results.oracle.connectivity import tree_changes

#: Deliveries that break a rule and are named.
_EXAMPLES = 5
#: Reasons of drops that lose nothing that a subscription may need: frames that came before, or too late.
_HARMLESS = frozenset({"sub_old", "pub_duplicate", "home_served", "overload_late"})

#: Faults beside which routers serve subscriptions all the same, to the end of the run: part, and what it met.
_HARMLESS_FAULTS = frozenset({("captures", "stopped"), ("captures", "resumed"), ("application", "killed")})


@dataclass(frozen=True)
class Judged:
    """The answers of the oracle.

    Attributes:
        results: of the rounds.
        broken: safety rule -> deliveries that break the rule, rows of the history.
        cost: of CBR.
        undecided: why starvation is no fault in this run; None: it is a fault.
    """

    history: History
    results: list[Result]
    broken: Mapping[str, Integers]
    cost: Cost
    undecided: str | None

    @property
    def summary(self) -> Judgement:
        """The answers about the run as a whole."""
        found = Counter(each.verdict.value for each in self.results)
        return Judgement(
            violations={name: len(rows) for name, rows in self.broken.items()},
            examples=list(islice(self._examples(), _EXAMPLES)),
            outcomes={verdict.value: found[verdict.value] for verdict in Verdict},
            undecided=self.undecided,
            starved_decided=len(starved(self.results)),
            publications=len(self.history.source),
            registrations=len(self.history.rounds),
            deliveries=len(self.history.round_of),
            deliveries_from=self.history.deliveries_from(),
            cbr_crossings=self.cost.publication_crossings,
            cbr_deliveries=self.cost.router_deliveries,
            cbr_control=self.cost.control_crossings,
        )

    def rounds(self, zero_s: float) -> Iterator[JudgedRound]:
        """Yields the answers about the rounds.

        Args:
            zero_s: experiment second 0 in seconds of the routers' clock.
        """
        for each in self.results:
            own = each.round
            yield JudgedRound(
                node=own.home,
                app=own.app,
                subscription=own.subscription,
                round=own.number,
                predicate=self.history.predicates[own.predicate],
                max=own.max,
                begin_s=round(own.begin_s - zero_s, 9),
                lifetime_s=own.lifetime_s,
                freshness_s=own.freshness_s,
                outcome=each.verdict.value,
                got=each.got,
                got_remote=each.got_remote,
                m_s=each.matching,
                m_s_eligible=each.eligible,
                filled_s=None if each.filled_s is None else round(each.filled_s, 9),
            )

    def _examples(self) -> Iterator[str]:
        for rule, rows in self.broken.items():
            for row in rows.tolist():
                home, subscription, number, source, seq = self.history.named[row].tolist()
                yield (
                    f"{rule}: publication {source}/{seq} to subscription {home}/{subscription}, "
                    f"round {number}, at {self.history.delivered_s[row]:.6f} s of the routers' clock"
                )


def judge(
    history: History, forest: Forest, nodes: int, *, end_s: float, window_s: float, undecided: str | None
) -> Judged:
    """Judges the records of a run.

    Args:
        forest: the broadcast trees, for CBR.
        end_s: end of the experiment, seconds of the routers' clock.
        window_s: time for which a frame may be under way.
    """
    return Judged(
        history,
        results(history, end_s, window_s),
        violations(history, window_s),
        exhaustive_cost(history.lifetimes(), history.uploads(), forest, nodes),
        undecided,
    )


def write_judgement(
    run: RunLayout,
    forest: Forest,
    nodes: int,
    duration_s: float,
    window_s: float,
    undecided: str | None = None,
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
        zero_s = max(zero_s, record["at_s"] - clock.experiment_s(record["t_ns"]))
        try:
            collector.take(record)
        except (OverflowError, ValueError) as error:
            raise RunFolderError(f"{where}: {error}") from error
    try:
        history = collector.history()
    except ValueError as error:
        raise RunFolderError(f"{run.service_folder}: {error}") from error
    zero_s = float(zero_s) if np.isfinite(zero_s) else 0.0
    judged = judge(
        history,
        forest,
        nodes,
        end_s=zero_s + duration_s,
        window_s=window_s * max(clock.rates),
        undecided=undecided or _undecided(run),
    )
    write_answers(run, judged.rounds(zero_s), judged.summary)


def _undecided(run: RunLayout) -> str | None:
    """Returns why the records of a run leave starvation undecided, or None."""
    faults = [each for each in read_faults(run) if (each["part"], each["what"]) not in _HARMLESS_FAULTS]
    commands = read_commands(run)
    if faults:
        first = faults[0]
        of = f" of node {first['node']}" if "node" in first else ""
        return f"parts of the run did not work throughout: {first['part']}{of} {first['what']}"
    if commands:
        # A shell or a program in a node may do anything to the network.
        return f"the run was given commands: {commands[0]['command']}"
    counters = read_routers_counters(run)
    if run.controller_log.exists() and tree_changes(event for _, event in read_controller(run)):
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
