"""Evidence of a finished run that is gone: the accounting names it."""

from __future__ import annotations

import json
import re
import shutil
import struct
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from captures.accounting import contradictions
from captures.accounting.direct import Direct
from captures.accounting.inputs import Inputs
from captures.accounting.recorded import recorded_and_counted
from captures.rundir.clock import read_clock
from captures.rundir.counters import ROUTERS_KEEP
from captures.rundir.files import RunFolderError
from captures.rundir.inputs import read_manifest
from captures.rundir.layout import RunLayout
from router.clock.page import NS
from router.wire.format import FrameType
from router.wire.header import ETHERNET_HEADER_LENGTH
from testbed.experiments.config.load import load_experiment
from testbed.results.conclude import judge_run
from testbed.sim.clock import EPOCH_NS
from testbed.sim.simulation import simulate
from testbed.terminal.progress import Progress
from tests.support.attention_experiment import experiment as attention_experiment
from tests.support.run_folder import good_run

EXPERIMENT = """
seed = 3
duration_s = 60
time_scale = 10

[topology]
link = [{ u = 0, v = 1 }, { u = 1, v = 2 }]

[workload]
senders_percent = 100
receivers_percent = 100
messages_per_minute = 60
first_message_s = 2
"""


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A simulation that the oracle has judged."""
    file = tmp_path_factory.mktemp("simulated") / "line.toml"
    file.write_text(EXPERIMENT)
    return _judged(file)


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As `simulated`, with the attention-limited service."""
    return _judged(attention_experiment(tmp_path_factory.mktemp("limited") / "ring.toml", "pdp", 1))


def _judged(file: Path) -> Path:
    experiment = load_experiment(file)
    run = simulate(experiment, file.parent / "runs", Progress(Console(quiet=True)))
    judge_run(RunLayout(run), experiment)
    return run


def _reasons(run: Path) -> list[str]:
    """Returns the reasons of the verdict, or the error of the accounting."""
    try:
        with Direct(run) as direct:
            return direct.verdict()[1]
    except RunFolderError as error:
        return [str(error)]


def test_each_file_that_the_manifest_lists_is_missed(simulated: Path, tmp_path: Path) -> None:
    listed = read_manifest(RunLayout(simulated))["evidence"]
    assert _reasons(simulated) == []
    for name in listed:
        run = tmp_path / "run"
        shutil.copytree(simulated, run)
        (run / name).unlink()
        reasons = _reasons(run)
        assert any(name in reason and "missing" in reason for reason in reasons), (name, reasons)
        shutil.rmtree(run)


def test_the_records_of_a_restarted_router_are_missed(tmp_path: Path) -> None:
    run = RunLayout(good_run().write(tmp_path))
    run.faults.write_text(
        '{"t_ns":5,"at_s":0.0,"what":"killed","part":"router","node":1}\n'
        '{"t_ns":6,"at_s":0.0,"what":"started","part":"router","node":1}\n'
    )
    assert _reasons(run.path) == ["evidence is missing: logs/applications/r1.restart-1.jsonl"]


def _without_last(file: Path, event: str) -> None:
    """Removes the last record of an event or outcome."""
    lines = file.read_text().splitlines(keepends=True)
    last = max(place for place, line in enumerate(lines) if event in json.loads(line).values())
    file.write_text("".join(lines[:last] + lines[last + 1 :]))


def test_a_delivery_that_is_counted_and_not_recorded_is_missed(simulated: Path, tmp_path: Path) -> None:
    run = RunLayout(shutil.copytree(simulated, tmp_path / "run"))
    _without_last(run.simulated_applications, "deliver")
    # The oracle is not asked again: nobody misses the delivery, which may be undecided.
    (reason,) = (each for each in _reasons(run.path) if each.startswith("records"))
    assert re.search(r"in 1 numbers; first: router \d: messages delivered: expected (\d+), found", reason)


@pytest.mark.parametrize(
    ("event", "counted"),
    [
        ("upload", "publications uploaded"),
        ("deliver", "publications delivered"),
        ("remote", "by other routers"),
        ("refresh", "rounds of subscriptions begun"),
        ("satisfied", "rounds of subscriptions satisfied"),
    ],
)
def test_a_record_of_the_service_that_is_gone_is_missed(
    limited: Path, tmp_path: Path, event: str, counted: str
) -> None:
    run = RunLayout(shutil.copytree(limited, tmp_path / "run"))
    _without_last(run.simulated_service_records, event)
    with Direct(run.path) as direct:
        found = direct.summary()
    differences = found["reconciliation"]["applications"]["differences"]
    assert any(each["where"].endswith(counted) for each in differences)
    assert found["verdict"] == "fails"


@pytest.mark.parametrize(
    "counter",
    [
        *("messages_received", "messages_forwarded", "messages_unwanted", "messages_delivered"),
        *("ras_issued", "ras_received", "ras_forwarded", "bytes_received", "bytes_sent"),
    ],
)
def test_a_counter_that_the_captures_contradict_is_named(
    simulated: Path, tmp_path: Path, counter: str
) -> None:
    run = RunLayout(shutil.copytree(simulated, tmp_path / "run"))
    routers = json.loads(run.routers_counters.read_text())
    routers["1"][counter] += 1
    run.routers_counters.write_text(json.dumps(routers))
    # The captures of all host links together say how many messages were of no use.
    name = {"messages_delivered": "messages delivered"}
    (reason,) = _reasons(run.path)
    assert name.get(counter, counter) in reason


def _rewritten(file: Path, old: str, new: str | Callable[[re.Match[str]], str]) -> None:
    """Replaces what matches a pattern."""
    text = file.read_text()
    changed = re.sub(old, new, text)
    assert changed != text
    file.write_text(changed)


def _shifted(file: Path, shift_s: int) -> None:
    """Moves the times of a capture."""
    data = bytearray(file.read_bytes())
    at = 24
    while at < len(data):
        seconds, _, captured, _ = struct.unpack_from("<IIII", data, at)
        struct.pack_into("<I", data, at, seconds + shift_s)
        at += 16 + captured
    file.write_bytes(data)


def _altered(file: Path, kind: FrameType) -> None:
    """Changes the last byte of the last frame of a type: a part of the value of an attribute."""
    data = bytearray(file.read_bytes())
    at, last = 24, 0
    while at < len(data):
        captured = struct.unpack_from("<I", data, at + 8)[0]
        at += 16 + captured
        if data[at - captured + ETHERNET_HEADER_LENGTH + 1] == kind:
            last = at - 1
    data[last] ^= 1
    file.write_bytes(data)


@pytest.mark.parametrize(
    ("mutate", "reason"),
    [
        (
            lambda run: _altered(run.capture("link-0-1"), FrameType.MSG),
            r"message \d/\d+: different contents in its record and captured frames",
        ),
        (
            lambda run: _rewritten(run.simulated_applications, r'("attributes": ?\{)', r'\1"more":1,'),
            r"message \d/\d+: different contents in its record and captured frames",
        ),
        (
            lambda run: _rewritten(run.simulated_applications, r'("deliver","t_ns":)\d+', r"\g<1>7"),
            r"message \d/\d+: delivered [\d.e+,]+ s before it was sent",
        ),
        (
            lambda run: _shifted(run.capture("link-0-1"), 3600),
            r"capture link-0-1: frames [\d.e+,]+ s after the run ended",
        ),
        (
            lambda run: _shifted(run.capture("host-2"), -3600),
            r"capture host-2: frames [\d.e+,]+ s before the run began",
        ),
        (
            lambda run: _rewritten(run.topology, r'"cost": ?1', '"cost": 2'),
            r"topology\.json: not the file with which the run began",
        ),
    ],
)
def test_evidence_that_contradicts_other_evidence_is_named(
    simulated: Path, tmp_path: Path, mutate: Callable[[RunLayout], None], reason: str
) -> None:
    run = RunLayout(shutil.copytree(simulated, tmp_path / "run"))
    mutate(run)
    reasons = _reasons(run.path)
    assert any(re.fullmatch(f"evidence contradicts itself: {reason}", each) for each in reasons), reasons


def test_many_contradictions_are_counted_and_the_first_are_named(
    simulated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contradictions, "NAMED", 3)
    run = RunLayout(shutil.copytree(simulated, tmp_path / "run"))
    _rewritten(run.simulated_applications, r'("deliver","t_ns":)\d+', r"\g<1>7")
    with Direct(run.path) as direct:
        texts = direct.summary()["contradictions"]
    assert sum("before it was sent" in text for text in texts) == 3
    assert sum(bool(re.match(r"\d+ more ", text)) for text in texts) == 2  # of messages, and of records
    _rewritten(run.simulated_applications, r'.*"send_message".*\n', "")
    with Direct(run.path) as direct:
        assert direct.summary()["messages_unrecorded"] > 3


def test_an_epoch_that_is_abandoned_for_the_next_is_no_contradiction(simulated: Path, tmp_path: Path) -> None:
    run = RunLayout(shutil.copytree(simulated, tmp_path / "run"))
    _without_last(run.controller_log, "committed")
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
    assert _reasons(_judged(file)) == []


@pytest.mark.parametrize(
    ("set_ms", "named"), [(0, "delivered"), (20, None), (2000, "the wall clock was set")]
)
def test_times_may_differ_by_what_the_wall_clock_was_set(
    simulated: Path, tmp_path: Path, set_ms: int, named: str | None
) -> None:
    run = RunLayout(shutil.copytree(simulated, tmp_path / "run"))
    _rewritten(
        run.simulated_applications,
        r'("deliver","t_ns":)(\d+)',
        lambda found: f"{found[1]}{int(found[2]) - 15_000_000}",
    )
    last = read_clock(run).pieces[-1]
    t_ns, at_s = last.start_ns + NS, last.experiment_s + last.rate
    end = {"monotonic_ns": t_ns - EPOCH_NS, "experiment_s": at_s, "rate": last.rate}
    with run.clock.open("a") as clock:
        clock.write(json.dumps({"t_ns": t_ns - set_ms * 10**6, **end}) + "\n")
    reasons = _reasons(run.path)
    assert any(named in each for each in reasons) if named else reasons == []


def test_a_publication_that_a_link_alters_is_named(limited: Path, tmp_path: Path) -> None:
    run = RunLayout(shutil.copytree(limited, tmp_path / "run"))
    carried = [path for path in run.captures_folder.glob("link-*") if path.stat().st_size > 24]
    _altered(sorted(carried)[0], FrameType.PUB)
    (reason,) = _reasons(run.path)
    assert re.fullmatch(r"evidence contradicts itself: message \d/\d+: different contents in .*", reason)


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
    for t_ns, excused in ((sent_ns, True), (sent_ns - 3_600_000_000_000, False)):
        changed = copy(inputs)
        changed.log = replace(inputs.log, left=[(2, t_ns)])
        counted, recorded = recorded_and_counted(changed)
        assert (counted == recorded) is excused
