"""The oracle of subscriptions on synthetic records, and the records that leave starvation open."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from captures.rundir import RunLayout
from captures.rundir.clock import CLOCK, ClockPiece
from captures.rundir.faults import COMMANDS, FAULTS, CommandRecord, FaultRecord
from captures.rundir.measures import ROUTERS
from captures.rundir.oracle import JUDGEMENT
from router.predicates.parser import parse_predicate
from router.predicates.printer import predicate_to_json
from router.protocol.services.attention import Origin
from router.records.json_file import json_line
from testbed.controller.trees import spt_trees
from testbed.results.oracle.attention import ORIGINS, Collector, History
from testbed.results.oracle.attention.baseline import exhaustive_cost
from testbed.results.oracle.attention.judge import results, starved, violations, write_judgement
from topos.generators import line

Record = Mapping[str, Any]


def registered(
    at_s: float, subscription: int = 1, number: int = 0, node: int = 0, value: int = 1, **limits: Any
) -> Record:
    limits = {"max": 2, "lifetime_s": 10.0, "freshness_s": 5.0} | limits
    return {
        "event": "refresh" if number else "register",
        "node": node,
        "app": "x",
        "subscription": subscription,
        "round": number,
        "predicate": f"event = {value}",
        "at_s": at_s,
        **limits,
    }


def uploaded(at_s: float, seq: int, value: int = 1, source: int = 3) -> Record:
    attributes = {"event": value}
    return {"event": "upload", "source": source, "seq": seq, "attributes": attributes, "at_s": at_s}


def delivered(at_s: float, seq: int, number: int = 0, age_s: float = 0.0, **other: Any) -> Record:
    record = {"node": 0, "subscription": 1, "round": number, "source": 3, "seq": seq, "whence": "remote"}
    return {"event": "deliver", **record, "at_s": at_s, "age_s": age_s, **other}


def ended(at_s: float, number: int = 0, event: str = "outcome") -> Record:
    return {"event": event, "node": 0, "subscription": 1, "round": number, "outcome": "expired", "at_s": at_s}


def history_of(records: Iterable[Record]) -> History:
    collector = Collector(lambda text: predicate_to_json(parse_predicate(text)))
    for record in records:
        collector.take(record)
    return collector.history()


def broken(records: Iterable[Record], slack_s: float = 0.0) -> dict[str, int]:
    return {name: len(rows) for name, rows in violations(history_of(records), slack_s).items() if len(rows)}


#: Two rounds of a subscription in which everything is right.
_RIGHT = (
    registered(10.0, freshness_s=12.0),
    *(uploaded(at_s, seq) for seq, at_s in enumerate((9.0, 12.0, 13.0, 21.0, 29.0, 2.0), 1)),
    uploaded(12.5, 7, value=2),
    delivered(10.0, 1, age_s=1.0),
    delivered(12.0, 2),
    ended(12.0),
    registered(20.0, number=1, freshness_s=12.0),
)


@pytest.mark.parametrize(
    ("rule", "record"),
    [
        ("unmatched", delivered(20.0, 7, 1)),
        ("stale", delivered(20.0, 6, 1)),
        ("stale", delivered(21.5, 4, 1, age_s=12.1)),
        ("outside_lifetime", delivered(30.1, 5, 1)),
        ("repeated", delivered(20.0, 2, 1)),
        ("before_upload", delivered(20.5, 4, 1)),
        ("unrecorded", delivered(21.0, 77, 1)),
        ("unrecorded", delivered(21.0, 4, 2)),
        ("above_max", delivered(13.0, 3)),
    ],
)
def test_each_rule_has_a_delivery_that_breaks_it_alone(rule: str, record: Record) -> None:
    assert broken([*_RIGHT, delivered(21.0, 4, 1), delivered(20.0, 3, 1)]) == {}
    assert broken([*_RIGHT, record]) == {rule: 1}


def test_time_on_links_is_allowed_for() -> None:
    late = [*_RIGHT, delivered(25.2, 3, 1, age_s=11.9)]
    assert broken(late, 0.0) == {"stale": 1}
    assert broken(late, 0.5) == {}


def test_deliveries_are_counted_by_where_the_publication_was() -> None:
    whences = ("dpt", "remote", "dpt", "upload")
    history = history_of([delivered(1.0, seq, whence=each) for seq, each in enumerate(whences)])
    assert history.deliveries_from() == {"upload": 1, "ppt": 0, "dpt": 2, "opt": 0, "remote": 1}
    assert [ORIGINS[each] for each in history.whence] == [*whences]
    assert tuple(each.value for each in Origin) == ORIGINS
    with pytest.raises(ValueError, match="whence: 'nowhere'; expected upload or ppt or dpt or opt or remote"):
        history_of([delivered(1.0, 1, whence="nowhere")])


def test_types_of_values_are_those_of_messages() -> None:
    """In Python true equals 1; no integer constraint matches a boolean."""
    records = [registered(0.0), uploaded(1.0, 1)]
    truth = {**uploaded(1.0, 2), "attributes": {"event": True}}
    assert broken([*records, truth, delivered(1.0, 1), delivered(1.0, 2)]) == {"unmatched": 1}


def test_outcomes() -> None:
    """Satisfied by equation (1), starved by (2), short of fewer matching publications than max."""
    uploads = [uploaded(at_s, seq) for seq, at_s in enumerate((1.0, 2.0, 3.0, 30.0), 1)]

    def outcome(
        *seqs: int, begin_s: float = 0.0, end_s: float = 100.0, most: int = 2, **limits: Any
    ) -> tuple[str, int, int]:
        records = [registered(begin_s, max=most, **limits), *uploads]
        ((found, _),) = results(history_of([*records, *(delivered(3.0, seq) for seq in seqs)]), end_s, 0.5)
        return found["outcome"], found["m_s"], found["m_s_eligible"]

    assert outcome(1, 2) == ("satisfied", 3, 3)
    assert outcome(1) == ("starved", 3, 3)
    assert outcome(1, 2, most=5) == ("short", 3, 3)
    assert outcome(1, 2, 3, most=5) == ("satisfied", 3, 3)
    assert outcome(1, end_s=9.0) == ("open", 3, 3)
    assert outcome(1, 2, end_s=9.0) == ("satisfied", 3, 3)
    assert outcome(begin_s=5.0) == ("satisfied", 0, 3)
    assert outcome(begin_s=5.0, freshness_s=2.5) == ("satisfied", 0, 1)


def test_starvation_leaves_out_uploads_close_to_the_ends_of_a_lifetime_or_too_old_for_a_push() -> None:
    """pdp pushes at the end of a lifetime, when a publication may be older than the freshness."""
    fresh, short = 20.0, 5.0
    ends = ((1.0, fresh, True), (0.2, fresh, False), (9.8, fresh, False))
    for at_s, freshness_s, certain in (*ends, (4.0, short, False), (6.0, short, True)):
        records = [registered(0.0, max=1, freshness_s=freshness_s), uploaded(at_s, 1)]
        found = list(results(history_of(records), 100.0, 0.5))
        assert [each["outcome"] for each, _ in found] == ["starved"]
        assert bool(starved(found)) is certain


def test_a_withdrawn_subscription_costs_exhaustive_routers_no_publication() -> None:
    """Home and source are the ends of a line of four nodes."""
    forest = spt_trees(line(4))

    def crossings(*end: Record) -> int:
        found = history_of([registered(0.0), *end, uploaded(5.0, 1), uploaded(11.0, 2)])
        return exhaustive_cost(found.lifetimes(), found.uploads(), forest).publication_crossings

    assert crossings() == 3
    assert crossings(ended(2.0)) == 3
    assert crossings(ended(2.0, event="unregister")) == 0
    assert crossings(ended(6.0, event="unregister")) == 3


_TIMES = st.integers(0, 40).map(float)


@st.composite
def _records(draw: st.DrawFn) -> list[Record]:
    records: list[Record] = []
    for subscription in range(draw(st.integers(1, 3))):
        at_s = 0.0
        for number in range(draw(st.integers(1, 3))):
            at_s += draw(_TIMES)
            limits: dict[str, Any] = {
                "max": draw(st.integers(1, 3)),
                "freshness_s": draw(_TIMES) + 1,
                "lifetime_s": draw(_TIMES) + 1,
            }
            records.append(registered(at_s, subscription, number, value=subscription % 2, **limits))
    records += [
        uploaded(draw(_TIMES), seq, draw(st.integers(0, 1)), draw(st.integers(0, 2)))
        for seq in range(draw(st.integers(1, 8)))
    ]
    for _ in range(draw(st.integers(0, 12))):
        other = {"subscription": draw(st.integers(0, 2)), "source": draw(st.integers(0, 2))}
        records.append(
            delivered(draw(_TIMES), draw(st.integers(0, 8)), draw(st.integers(0, 2)), draw(_TIMES), **other)
        )
    return records


def _by_hand(records: list[Record], slack_s: float) -> dict[str, set[int]]:
    """The rules, one delivery after the other."""
    found: dict[str, set[int]] = {name: set() for name in violations(history_of([]), 0.0)}
    rounds = {
        (each["subscription"], each["round"]): each
        for each in records
        if each["event"] in ("register", "refresh")
    }
    uploads = {(each["source"], each["seq"]): each for each in records if each["event"] == "upload"}
    got: dict[tuple[int, int], int] = {}
    had: set[tuple[int, int, int]] = set()
    for row, each in enumerate(each for each in records if each["event"] == "deliver"):
        key = each["subscription"], each["round"]
        began, upload = rounds.get(key), uploads.get((each["source"], each["seq"]))
        if began is None or upload is None:
            found["unrecorded"].add(row)
            continue
        age_s = each["at_s"] - upload["at_s"]
        got[key] = got.get(key, 0) + 1
        pair = each["subscription"], each["source"], each["seq"]
        checks = {
            "unmatched": began["predicate"] != f"event = {upload['attributes']['event']}",
            "stale": each["age_s"] > began["freshness_s"] or age_s > began["freshness_s"] + slack_s,
            "outside_lifetime": not 0 <= each["at_s"] - began["at_s"] <= began["lifetime_s"],
            "above_max": got[key] > began["max"],
            "repeated": pair in had,
            "before_upload": age_s < 0,
        }
        had.add(pair)
        for name, wrong in checks.items():
            if wrong:
                found[name].add(row)
    return found


@settings(max_examples=150)
@given(_records(), st.sampled_from([0.0, 2.0]))
def test_columns_give_what_one_delivery_after_the_other_gives(records: list[Record], slack_s: float) -> None:
    found = violations(history_of(records), slack_s)
    assert {name: set(rows.tolist()) for name, rows in found.items()} == _by_hand(records, slack_s)


@given(_records())
def test_counts_of_uploads(records: list[Record]) -> None:
    history = history_of(records)
    uploads = [each for each in records if each["event"] == "upload"]
    deliveries = [each for each in records if each["event"] == "deliver"]
    known = {(each["source"], each["seq"]): each["at_s"] for each in uploads}
    answers = results(history, 1e9, 0.0)
    for own, (found, certain) in zip(history.rounds, answers, strict=True):
        matching = [
            each
            for each in uploads
            if f"event = {each['attributes']['event']}" == history.predicates[own.predicate]
        ]
        in_lifetime = [each for each in matching if own.begin_s <= each["at_s"] <= own.deadline_s]
        assert found["m_s"] == len(in_lifetime)
        assert certain == sum(each["at_s"] >= own.deadline_s - own.freshness_s for each in in_lifetime)
        fresh = [each for each in matching if own.begin_s - own.freshness_s <= each["at_s"] <= own.deadline_s]
        earlier = [
            each
            for each in deliveries
            if each["subscription"] == own.subscription
            and each["round"] < own.number
            and (each["source"], each["seq"]) in known
            and any(r.subscription == own.subscription and r.number == each["round"] for r in history.rounds)
            and own.begin_s - own.freshness_s <= known[each["source"], each["seq"]] <= own.deadline_s
        ]
        assert found["m_s_eligible"] == len(fresh) - len(earlier)
        assert found["got"] == sum(
            (each["subscription"], each["round"]) == (own.subscription, own.number)
            and (each["source"], each["seq"]) in known
            for each in deliveries
        )


_LINK = {"link": 0, "u": 0, "v": 1}
_BROKEN = "parts of the run did not work throughout"
_SET_UP = ({"event": "committed", "epoch": 1, "routers": 3, "seconds": 0.1},)


def _fault(**record: Any) -> Callable[[RunLayout], object]:
    fault: FaultRecord = {"t_ns": 10, "at_s": 1.0, "what": "stopped", "part": "router", **record}  # type: ignore[typeddict-item]
    return lambda run: FAULTS.append(run, fault)


def _command(text: str) -> Callable[[RunLayout], object]:
    record: CommandRecord = {"at_s": 1.0, "time_ns": 10, "command": text}
    return lambda run: COMMANDS.append(run, record)


def _counters(**counters: Any) -> Callable[[RunLayout], object]:
    one = {"frames_received": {}, "frames_sent": {}, **counters}
    return lambda run: ROUTERS.write(run, {0: one, 1: one})


def _controller(*events: dict[str, Any]) -> Callable[[RunLayout], object]:
    lines = [json_line({"t_ns": 20 + number, **event}) for number, event in enumerate((*_SET_UP, *events))]
    return lambda run: run.controller_log.write_bytes(b"".join(lines))


@pytest.mark.parametrize(
    ("happened", "undecided"),
    [
        (_counters(dropped={"sub_old": 3, "pub_duplicate": 2}), None),
        (_controller(), None),
        (_fault(part="captures"), None),
        (_fault(what="lost", part="captures", why="ended"), f"{_BROKEN}: captures lost"),
        (_fault(what="killed", part="application", node=2, app="0"), None),
        (_counters(dropped={"sub_old": 3, "malformed": 1}), "routers dropped frames: 2 malformed"),
        (_counters(socket_drops=4), "routers dropped frames: 8 socket"),
        (_counters(publications_evicted=3), "6 publications were evicted from caches"),
        (_controller({"event": "link_down", **_LINK}), "broadcast trees changed"),
        (_fault(node=3), f"{_BROKEN}: router of node 3 stopped"),
        (_fault(what="lost", part="switches", why="ended"), f"{_BROKEN}: switches lost"),
        (_command("link 0 1 set loss=5"), "the run was given commands: link 0 1 set loss=5"),
    ],
)
def test_what_happened_in_a_run_leaves_starvation_open(
    tmp_path: Path, happened: Callable[[RunLayout], object], undecided: str | None
) -> None:
    run = RunLayout(tmp_path)
    for folder in (run.logs_folder, run.service_folder, run.routers_counters.parent):
        folder.mkdir(parents=True, exist_ok=True)
    piece: ClockPiece = {"t_ns": 0, "monotonic_ns": 0, "experiment_s": 0.0, "rate": 1.0}
    CLOCK.write(run, [piece])
    _counters()(run)
    happened(run)
    # What the experiment says comes first.
    of_experiment = "link 0-1 loses frames"
    for known, expected in ((None, undecided), (of_experiment, of_experiment)):
        write_judgement(run, spt_trees(line(3)), 10.0, 0.1, known)
        judged = JUDGEMENT.read_if_there(run)
        assert judged is not None
        assert judged["undecided"] == expected
