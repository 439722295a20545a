"""The RAs that changes of predicates caused."""

from __future__ import annotations

import json
import re
import shutil
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from captures.accounting import contradictions
from captures.accounting.direct import Direct
from captures.accounting.inputs import Inputs
from captures.accounting.log_tables import DECLARED
from captures.accounting.recorded import recorded_and_counted
from captures.accounting.steps import values
from captures.rundir import RunLayout
from captures.rundir.capture_list import Kept
from captures.rundir.clock import read_clock
from captures.rundir.files import RunFolderError
from captures.rundir.measures import ROUTERS_KEEP
from router.clock import NS
from testbed.sim import EPOCH_NS
from tests.support.attention_experiment import experiment as attention_experiment
from tests.support.evidence import alter, drop
from tests.support.run_folder import asked_run, good_run
from tests.support.simulated import judged_run
from tests.support.texts import answer

_START = 7 << 32
_MS = 1_000_000


def _tables(
    waves: list[tuple[int, int, int, str]], declared: list[tuple[int, str, int]], wait_ms: int = 100
) -> Any:
    """The changes and RAs of node 3.

    Args:
        waves: sequence number, epoch, time and predicate of each RA.
        declared: time, application and number of filters of each change.
        wait_ms: the longest time from a change to its RA.

    Returns the RAs of the changes by their times, and cause and changes of the RAs.
    """
    rows = [
        {"issuer": 3, "seq": seq, "epoch": epoch, "predicate": predicate, "first_ns": ns, "last_ns": ns + 5}
        | {"routers": 2, "frames": 2, "bytes": 200}
        for seq, epoch, ns, predicate in waves
    ]
    columns = [("issuer", pa.int64()), ("seq", pa.int64()), ("epoch", pa.int64()), ("predicate", pa.string())]
    columns += [(name, pa.int64()) for name in ("first_ns", "last_ns", "routers", "frames", "bytes")]
    changes = [
        {"node": 3, "app": app, "t_ns": ns + 1, "predicate": "x", "filters": filters, "requested_ns": ns}
        | {"place": place}
        for place, (ns, app, filters) in enumerate(declared)
    ]
    inputs = {
        "waves": pa.Table.from_pylist(rows, schema=pa.schema(columns)),
        "declared": pa.Table.from_pylist(changes, schema=DECLARED),
    }
    wait_ns = str(wait_ms * _MS)
    found = [answer(name, inputs, wait_ns=wait_ns) for name in ("predicate_changes", "advertisements")]
    return (
        {row["requested_ns"]: row["seq"] for row in found[0].to_pylist()},
        {row["seq"]: (row["cause"], row["changes"]) for row in found[1].to_pylist()},
    )


@pytest.mark.parametrize(("epoch", "cause"), [(2, "epoch"), (1, None)])
def test_an_ra_that_repeats_a_predicate_has_no_change_as_its_cause(epoch: int, cause: str | None) -> None:
    # The first application's predicate covers that of the second: no RA until the epoch or period.
    waves = [
        (_START + 1, 1, 10, "a < 9"),
        (_START + 2, epoch, 900, "a < 9"),
        (_START + 3, epoch, 950, "b = 1"),
    ]
    seqs, causes = _tables(waves, [(9, "one", 1), (20, "two", 1), (940, "two", 1)])
    assert seqs == {9: _START + 1, 20: None, 940: _START + 3}
    assert causes == {_START + 1: ("predicate", 1), _START + 2: (cause, 0), _START + 3: ("predicate", 1)}


def test_a_router_that_was_started_a_second_time_repeats_nothing() -> None:
    waves = [(_START + 1, 1, 10, "a < 9"), (_START + (1 << 32) + 1, 2, 500, "a < 9")]
    seqs, _ = _tables(waves, [(9, "one", 1), (490, "one", 1)])
    assert seqs == {9: _START + 1, 490: _START + (1 << 32) + 1}


def test_one_ra_answers_several_changes_and_a_withdrawal_one_without_a_filter() -> None:
    waves = [(_START + 1, 1, 30, "a < 9"), (_START + 2, 1, 100, "none")]
    seqs, causes = _tables(waves, [(9, "one", 1), (20, "two", 2), (50, "one", 0), (60, "two", 0)])
    assert seqs == {9: _START + 1, 20: _START + 1, 50: _START + 2, 60: _START + 2}
    assert causes == {_START + 1: ("predicate", 2), _START + 2: ("predicate", 2)}


def test_a_change_that_is_covered_is_not_answered_by_the_ra_of_a_later_change() -> None:
    waves = [(_START + 1, 1, 10 * _MS, "a < 9"), (_START + 2, 1, 901 * _MS, "a < 9 or b = 1")]
    # The predicate of application two is covered by that of application one until it has a second filter.
    declared = [(9 * _MS, "one", 1), (500 * _MS, "two", 1), (900 * _MS, "two", 2)]
    seqs, causes = _tables(waves, declared)
    assert seqs == {9 * _MS: _START + 1, 500 * _MS: None, 900 * _MS: _START + 2}
    assert causes == {_START + 1: ("predicate", 1), _START + 2: ("predicate", 1)}


def test_changes_while_an_ra_waits_are_answered_by_it() -> None:
    waves = [(_START + 1, 1, 10 * _MS, "a < 9"), (_START + 2, 1, 510 * _MS, "a < 9 or b = 1 or c = 1")]
    declared = [(9 * _MS, "one", 1), (50 * _MS, "two", 1), (400 * _MS, "two", 2)]
    seqs, _ = _tables(waves, declared, wait_ms=600)
    assert seqs == {9 * _MS: _START + 1, 50 * _MS: _START + 2, 400 * _MS: _START + 2}


def test_a_late_ra_answers_a_change_that_no_other_change_follows() -> None:
    waves = [(_START + 1, 1, 10 * _MS, "a < 9"), (_START + 2, 1, 900 * _MS, "b = 1")]
    seqs, _ = _tables(waves, [(9 * _MS, "one", 1), (500 * _MS, "one", 1)])
    assert seqs == {9 * _MS: _START + 1, 500 * _MS: _START + 2}


@pytest.mark.parametrize("predicates", [("a < 9", "b = 1"), ("encoded, 2 filters", "encoded, 1 filter")])
def test_the_first_ra_of_a_router_answers_all_changes_before_it(predicates: tuple[str, str]) -> None:
    # They wait for the first epoch.
    first, second = predicates
    waves = [(_START + 1, 1, 2_000 * _MS, first), (_START + 2, 1, 3_001 * _MS, second)]
    declared = [(9 * _MS, "one", 1), (900 * _MS, "two", 1), (3_000 * _MS, "two", 0)]
    seqs, causes = _tables(waves, declared)
    assert seqs == {9 * _MS: _START + 1, 900 * _MS: _START + 1, 3_000 * _MS: _START + 2}
    assert causes == {_START + 1: ("predicate", 2), _START + 2: ("predicate", 1)}


def test_private_ras_of_as_many_filters_are_not_taken_for_repetitions() -> None:
    waves = [(_START + 1, 1, 10 * _MS, "encoded, 1 filter"), (_START + 2, 1, 501 * _MS, "encoded, 1 filter")]
    seqs, causes = _tables(waves, [(9 * _MS, "one", 1), (500 * _MS, "one", 1)])
    assert seqs == {9 * _MS: _START + 1, 500 * _MS: _START + 2}
    assert causes == {_START + 1: ("predicate", 1), _START + 2: ("predicate", 1)}


def test_a_late_private_ra_has_another_cause() -> None:
    waves = [(_START + 1, 1, 10 * _MS, "encoded, 1 filter"), (_START + 2, 2, 901 * _MS, "encoded, 1 filter")]
    seqs, causes = _tables(waves, [(9 * _MS, "one", 1), (500 * _MS, "two", 1)])
    assert seqs == {9 * _MS: _START + 1, 500 * _MS: None}
    assert causes == {_START + 1: ("predicate", 1), _START + 2: ("epoch", 0)}


def test_an_ra_may_wait_as_long_as_the_experiment_says(tmp_path: Path) -> None:
    run = RunLayout(asked_run().write(tmp_path / "run"))
    assert values(Inputs(run))["wait_ns"] == str(100 * _MS)
    run.experiment.write_text("[protocol]\nra_min_interval_s = 5\nra_jitter_s = 0.5\n")
    # Ten experiment seconds a wall second.
    assert values(Inputs(run))["wait_ns"] == str(650 * _MS)


@pytest.mark.parametrize(
    ("kinds", "expected"), [(("host", "link"), [(2, 2), (2, 2)]), (("link",), [(None, 2)] * 2), ((), [])]
)
def test_routers_that_an_ra_reached_are_unknown_without_captures_of_hosts(
    tmp_path: Path, kinds: tuple[str, ...], expected: list[tuple[int | None, int]]
) -> None:
    run = asked_run()
    run.pcaps = {name: records for name, records in run.pcaps.items() if name.partition("-")[0] in kinds}
    with Direct(run.write(tmp_path / "run"), whole=True) as direct:
        advertisements = direct.table("advertisements").to_pylist()
        assert sorted((row["routers"], row["frames"]) for row in advertisements) == expected
        assert direct.table("predicate_changes").num_rows == 3
        assert bool(direct.table("hops").num_rows) is ("host" in kinds)


# Evidence of a finished run that `tests.support.mutations` cannot change by itself.


_LOGS = "logs/applications/*.jsonl"
EXPERIMENT = """
seed = 3
duration_s = 60
time_scale = 10
topology.link = [{ u = 0, v = 1 }, { u = 1, v = 2 }]
workload = { senders_percent = 100, receivers_percent = 100, messages_per_minute = 60, first_message_s = 2 }
"""


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A simulation that the oracle has judged."""
    file = tmp_path_factory.mktemp("simulated") / "line.toml"
    file.write_text(EXPERIMENT)
    return judged_run(file, file.parent).path


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As `simulated`, with the attention-limited service."""
    file = attention_experiment(tmp_path_factory.mktemp("limited") / "ring.toml", "pdp", 1)
    return judged_run(file, file.parent).path


def _reasons(run: Path) -> list[str]:
    """Returns the reasons of the verdict, or the error of the accounting."""
    try:
        with Direct(run) as direct:
            return direct.verdict()[1]
    except RunFolderError as error:
        return [str(error)]


def test_the_records_of_a_restarted_router_are_missed(tmp_path: Path) -> None:
    run = RunLayout(good_run().write(tmp_path))
    run.faults.write_text(
        '{"t_ns":5,"at_s":0.0,"what":"killed","part":"router","node":1}\n'
        '{"t_ns":6,"at_s":0.0,"what":"started","part":"router","node":1}\n'
    )
    assert _reasons(run.path) == ["evidence is missing: logs/applications/r1.restart-1.jsonl"]


@pytest.mark.parametrize(
    ("fields", "counted"),
    [({"whence": "remote"}, "by other routers"), ({"event": "refresh"}, "rounds of subscriptions begun")],
)
def test_a_record_of_the_service_that_is_gone_is_missed(
    limited: Path, tmp_path: Path, fields: dict[str, Any], counted: str
) -> None:
    run = RunLayout(shutil.copytree(limited, tmp_path / "run"))
    drop("logs/service/*.jsonl", **fields)(run)
    with Direct(run.path) as direct:
        found = direct.summary()
    differences = found["reconciliation"]["applications"]["differences"]
    assert any(each["where"].endswith(counted) for each in differences)
    assert found["verdict"] == "fails"


def test_many_contradictions_are_counted_and_the_first_are_named(
    simulated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contradictions, "NAMED", 3)
    run = RunLayout(shutil.copytree(simulated, tmp_path / "run"))
    alter(_LOGS, lambda each: each.update(t_ns=7), every=True, event="deliver")(run)
    with Direct(run.path) as direct:
        texts = direct.summary()["contradictions"]
    assert sum("before it was sent" in text for text in texts) == 3
    assert sum(bool(re.match(r"\d+ more ", text)) for text in texts) == 2  # of messages, and of records
    drop(_LOGS, every=True, event="send_message")(run)
    with Direct(run.path) as direct:
        assert direct.summary()["messages_unrecorded"] > 3


def test_an_epoch_that_is_abandoned_for_the_next_is_no_contradiction(simulated: Path, tmp_path: Path) -> None:
    run = RunLayout(shutil.copytree(simulated, tmp_path / "run"))
    drop("logs/controller.jsonl", event="committed")(run)
    named = "acknowledged by all, and never committed"
    assert any(named in reason for reason in _reasons(run.path))
    lines = run.controller_log.read_text().splitlines(keepends=True)
    started = json.loads(next(line for line in lines if '"epoch_started"' in line))
    run.controller_log.write_text("".join([*lines, json.dumps({**started, "epoch": 99}) + "\n"]))
    assert not any(named in reason for reason in _reasons(run.path))


def test_a_quiet_end_of_a_run_with_periodic_ras_is_no_contradiction(tmp_path: Path) -> None:
    file = tmp_path / "quiet.toml"
    first = '[[events]]\nat_s = 1\naction = "set_predicate"\nnode = 1\npredicate = "x = 1"\n'
    slow = "duration_s = 9000\ntime_scale = 1\nworkload = false\n[protocol]\nra_period_s = 1000\n"
    file.write_text(slow + "[topology]\nlink = [{ u = 0, v = 1 }]\n" + first)
    assert _reasons(judged_run(file, file.parent).path) == []


@pytest.mark.parametrize(
    ("set_ms", "named"), [(0, "delivered"), (20, None), (2000, "the wall clock was set")]
)
def test_times_may_differ_by_what_the_wall_clock_was_set(
    simulated: Path, tmp_path: Path, set_ms: int, named: str | None
) -> None:
    run = RunLayout(shutil.copytree(simulated, tmp_path / "run"))
    alter(_LOGS, lambda each: each.update(t_ns=each["t_ns"] - 15_000_000), every=True, event="deliver")(run)
    last = read_clock(run).pieces[-1]
    t_ns, at_s = last.start_ns + NS, last.experiment_s + last.rate
    end = {"monotonic_ns": t_ns - EPOCH_NS, "experiment_s": at_s, "rate": last.rate}
    with run.clock.open("a") as clock:
        clock.write(json.dumps({"t_ns": t_ns - set_ms * 10**6, **end}) + "\n")
    reasons = _reasons(run.path)
    assert any(named in each for each in reasons) if named else reasons == []


def test_each_counter_that_routers_write_is_missed(simulated: Path) -> None:
    inputs = Inputs(RunLayout(simulated))
    assert inputs.evidence_missing == []
    for name in ROUTERS_KEEP:
        one = {key: count for key, count in inputs.router_counters[1].items() if key != name}
        less = copy(inputs)
        less.router_counters = {**inputs.router_counters, 1: one}
        assert less.evidence_missing == [f"counters/routers.json: router 1: {name}"]


def test_an_application_that_left_excuses_what_was_under_way_alone(simulated: Path) -> None:
    inputs = Inputs(RunLayout(simulated))
    inputs.router_counters[2]["messages_delivered"] += 1
    sent_ns = inputs.log.sent["sent_ns"][0].as_py()
    assert min(inputs.clock.rates) > 1  # of which the window, in wall seconds, knows nothing
    for t_ns, excused in ((sent_ns, True), (sent_ns + 60 * NS, True), (sent_ns - 3_600 * NS, False)):
        changed = copy(inputs)
        changed.experiment = {**inputs.experiment, "oracle": {"in_flight_window_s": 60.0}}
        changed.log = replace(inputs.log, left=[(2, t_ns)])
        counted, recorded = recorded_and_counted(changed)
        assert (counted == recorded) is excused


@pytest.mark.parametrize("captures", ["links", "none"])
def test_a_simulation_without_captures_has_the_numbers_of_its_counters(
    simulated: Path, tmp_path: Path, captures: Kept
) -> None:
    file = tmp_path / "line.toml"
    file.write_text(EXPERIMENT)
    names = (
        *("verdict", "deliveries_made", "deliveries_expected", "false_negatives", "false_positives"),
        *("false_positives_from_network", "messages_sent", "frames_by_type", "control_share"),
        *("messages_received_by_routers", "messages_received_from_network"),
    )
    summaries = []
    for run in (simulated, judged_run(file, tmp_path / "runs", captures).path):
        with Direct(run) as direct:
            summaries.append(direct.summary())
    whole, partial = ({name: found[name] for name in names} for found in summaries)
    assert partial == whole
    assert whole["false_positives"] > 0
    # Frames that are not in the captures are in no other total.
    found = summaries[1]
    if captures == "links":
        assert (found["rests_on"]["frames"], found["bytes_by_type"]) == (
            "captures",
            summaries[0]["bytes_by_type"],
        )
        assert found["reconciliation"]["ovs"]["found"] == 2 * found["frames_captured"] > 0
    else:
        assert (found["rests_on"]["frames"], found["bytes_by_type"]) == ("counters of routers", {})
        assert (found["frames_captured"], found["convergence_s"]) == (0, None)
