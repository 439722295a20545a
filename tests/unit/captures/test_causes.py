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
from tests.support.cases import cases_beside
from tests.support.evidence import alter, drop
from tests.support.run_folder import asked_run, good_run
from tests.support.simulated import judged_run
from tests.support.texts import answer

_START = 7 << 32
_MS = 1_000_000


#: What a router does -> its RAs (number, epoch, time, predicate) and changes (time, application, number of
#: filters) -> the number of the RA of each change (0: none), and cause and changes of each RA.
_CASES = cases_beside(__file__)
_COLUMNS = [("issuer", pa.int64()), ("seq", pa.int64()), ("epoch", pa.int64()), ("predicate", pa.string())]
_COLUMNS += [(name, pa.int64()) for name in ("first_ns", "last_ns", "routers", "frames", "bytes")]


@pytest.mark.parametrize("case", _CASES)
def test_each_change_has_the_ra_that_it_caused(case: str) -> None:
    given = _CASES[case]
    unit = given.get("unit_ns", _MS)
    waves = [
        {"issuer": 3, "seq": _START + number, "epoch": epoch, "predicate": predicate}
        | {"first_ns": at * unit, "last_ns": at * unit + 5, "routers": 2, "frames": 2, "bytes": 200}
        for number, epoch, at, predicate in given["ras"]
    ]
    declared = [
        {"node": 3, "app": app, "t_ns": at * unit + 1, "predicate": "x", "filters": filters}
        | {"requested_ns": at * unit, "place": place}
        for place, (at, app, filters) in enumerate(given["changes"])
    ]
    inputs = {
        "waves": pa.Table.from_pylist(waves, schema=pa.schema(_COLUMNS)),
        "declared": pa.Table.from_pylist(declared, schema=DECLARED),
    }
    wait_ns = str(given.get("wait_ms", 100) * _MS)
    changes, ras = (
        answer(name, inputs, wait_ns=wait_ns).to_pylist() for name in ("predicate_changes", "advertisements")
    )
    answers = {row["requested_ns"] // unit: max(0, (row["seq"] or 0) - _START) for row in changes}
    assert answers == dict(zip((at for at, *_ in given["changes"]), given["answers"], strict=True))
    causes = {row["seq"] - _START: [row["cause"] or "", row["changes"]] for row in ras}
    assert causes == dict(zip((number for number, *_ in given["ras"]), given["causes"], strict=True))


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
EXPERIMENT = Path(__file__).with_name("line.toml")


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A simulation that the oracle has judged."""
    return judged_run(EXPERIMENT, tmp_path_factory.mktemp("simulated")).path


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
    names = (
        *("verdict", "deliveries_made", "deliveries_expected", "false_negatives", "false_positives"),
        *("false_positives_from_network", "messages_sent", "frames_by_type", "control_share"),
        *("messages_received_by_routers", "messages_received_from_network"),
    )
    summaries = []
    for run in (simulated, judged_run(EXPERIMENT, tmp_path / "runs", captures).path):
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
