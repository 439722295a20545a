"""The answers of the oracle: on deliveries, on attention-limited subscriptions, and on the run as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypedDict

from captures.rundir.files import Document, Log
from router.predicates.parser import parse_predicate
from router.predicates.printer import predicate_to_json


class OracleAnswer(TypedDict):
    """A pair of message and application that is expected, or that the oracle leaves open."""

    source: Annotated[int, "node that originated the message"]
    seq: Annotated[int, "sequence number of the message, 64 bits, unsigned"]
    sent_ns: Annotated[
        int,
        "when the application asked to send the message, ns since 1970 UTC; when it was delivered, if its "
        "router was killed too soon to record it",
    ]
    node: Annotated[int, "node of the application that may receive"]
    app: Annotated[str, "name of that application"]
    expected: Annotated[bool, "whether the predicate in force at `sent_ns` selects the message"]
    decided: Annotated[bool, "false: a change lay so close that either outcome is right"]


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
        Mapping[str, int], "where the router had the publication (`whence` of logs/service) -> deliveries"
    ]
    cbr_crossings: Annotated[
        int,
        "crossings of links by publications in an ideal content-based network with exhaustive semantics "
        "(CBR), on the trees of the run",
    ]
    cbr_deliveries: Annotated[int, "pairs of a publication and a router that CBR delivers it to"]
    cbr_control: Annotated[int, "crossings of links by CBR's registrations, each flooded"]


ORACLE = Log(
    lambda run: [run.oracle],
    "The answers of the oracle: a line for each pair of message and application that is expected or not "
    "decided; any other pair is decided, and not expected.",
    form=OracleAnswer,
)
SUBSCRIPTIONS = Log(
    lambda run: [run.subscriptions],
    'With [service] `kind = "attention"`: the oracle on every round of every subscription, one a line.',
    form=JudgedRound,
    optional=True,
)
JUDGEMENT = Document(
    lambda run: [run.attention],
    'With [service] `kind = "attention"`: the oracle on the whole run.',
    form=Judgement,
)


def filters_of(predicate: str) -> list[list[list[Any]]]:
    """Returns a predicate of the readable notation as `[[[name, type, operator, value], ...], ...]`.

    Raises:
        ValueError: the text is no predicate.
    """
    return predicate_to_json(parse_predicate(predicate))
