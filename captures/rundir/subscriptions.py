"""The oracle on attention-limited subscriptions: each round, and the run as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, TypedDict

from captures.rundir.files import read_lines, read_object, write_json, write_lines
from captures.rundir.layout import RunLayout
from captures.rundir.records import RunFile, check
from router.predicates.parser import parse_predicate
from router.predicates.printer import predicate_to_json


class JudgedRound(TypedDict):
    """A round of a subscription: a lifetime that began with a registration or a refresh."""

    node: Annotated[int, "home of the subscription"]
    app: Annotated[str, "name of the application"]
    subscription: Annotated[int, "number of the subscription at its home, 64 bits, unsigned"]
    round: Annotated[int, "number of the round, from 0 on"]
    predicate: Annotated[str, "in the readable notation"]
    max: Annotated[int, "greatest number of publications of the round"]
    begin_s: Annotated[float, "experiment second of the registration or refresh"]
    lifetime_s: Annotated[float, "experiment seconds"]
    freshness_s: Annotated[float, "greatest age of a publication, experiment seconds"]
    outcome: Annotated[
        str,
        "`satisfied`: N_S is at least min(M_S, max); `starved`: N_S < max <= M_S (attention paper, "
        "equations 1 and 2); `short`: fewer than M_S < max; `open`: the experiment ended before; `withdrawn`",
    ]
    got: Annotated[int, "N_S: publications delivered"]
    got_remote: Annotated[int, "those of them that another router sent"]
    m_s: Annotated[int, "M_S: matching publications uploaded in the lifetime"]
    m_s_eligible: Annotated[
        int,
        "matching publications that were fresh at some time of the lifetime and that the subscription had "
        "not got in an earlier round",
    ]
    filled_s: Annotated[float | None, "from the beginning until `max` were delivered; null: never"]


class Judgement(TypedDict):
    """The oracle's answers about the run as a whole."""

    violations: Annotated[
        Mapping[str, int], "safety rule -> deliveries that break it; each of them makes the verdict fail"
    ]
    examples: Annotated[list[str], "the first deliveries that break a rule, in words"]
    outcomes: Annotated[Mapping[str, int], "outcome -> rounds"]
    undecided: Annotated[
        str | None, "why starvation is a measurement and no fault in this run; null: it is a fault"
    ]
    starved_decided: Annotated[
        int,
        "rounds that starve although enough publications were uploaded in the lifetime, not counting those "
        "within the oracle's window of its ends or older than the freshness at its end",
    ]
    publications: Annotated[int, "publications uploaded"]
    registrations: Annotated[int, "registrations and refreshes"]
    deliveries: Annotated[int, "deliveries of publications to subscriptions"]
    deliveries_from: Annotated[
        Mapping[str, int],
        "where the router had the publication -> deliveries: `upload`, an application of the router had just "
        "uploaded it; `ppt`, `dpt` and `opt`, in that index; `remote`, another router sent it",
    ]
    cbr_crossings: Annotated[
        int,
        "crossings of links by publications in an ideal content-based network with exhaustive semantics "
        "(CBR), on the trees of the run",
    ]
    cbr_deliveries: Annotated[int, "pairs of a publication and a router that CBR delivers it to"]
    cbr_control: Annotated[int, "crossings of links by CBR's registrations, each flooded"]


SUBSCRIPTIONS = RunFile(
    lambda run: [run.subscriptions],
    'With [service] `kind = "attention"`: the oracle on every round of every subscription, one a line.',
    (("", JudgedRound),),
)
JUDGEMENT = RunFile(
    lambda run: [run.attention],
    'With [service] `kind = "attention"`: the oracle on the whole run.',
    (("", Judgement),),
)


def read_subscriptions(run: RunLayout) -> Iterator[JudgedRound]:
    """Reads the rounds; none if the run has another service.

    Raises:
        RunFolderError: a line is malformed; names file and line.
    """
    if run.subscriptions.exists():
        for where, record in read_lines(run.subscriptions):
            yield check(JudgedRound, where, record)


def read_judgement(run: RunLayout) -> Judgement | None:
    """Reads the judgement of the whole run; None if the run has another service.

    Raises:
        RunFolderError: the file is malformed.
    """
    if not run.attention.exists():
        return None
    record = read_object(run.attention)
    return check(Judgement, str(run.attention), record)


def write_answers(run: RunLayout, rounds: Iterable[JudgedRound], judgement: Judgement) -> None:
    """Writes both files, each whole or not at all."""
    write_lines(run.subscriptions, rounds)
    write_json(run.attention, judgement)


def filters_of(predicate: str) -> list[list[list[Any]]]:
    """Returns a predicate of the readable notation as `[[[name, type, operator, value], ...], ...]`.

    Raises:
        ValueError: the text is no predicate.
    """
    return predicate_to_json(parse_predicate(predicate))
