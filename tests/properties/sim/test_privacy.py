"""A private simulation delivers to applications what the plain one of the same seed delivers."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from captures.accounting.direct import Direct
from captures.rundir import RunLayout
from testbed.experiments.config import Experiment, PrivacyOptions
from testbed.experiments.config.load import find_experiment, load_experiment
from testbed.results.conclude import judge_run
from tests.support.plaintext import captured_bytes, plain_forms
from tests.support.simulated import simulated
from topos.generators import grid, ring

_CASES = {
    "ring": (ring(5), "pif", PrivacyOptions(mode="bloom")),
    "grid, small sets": (grid(3, 3), "pif", PrivacyOptions(mode="bloom", bits=64, hashes=2)),
    "ranges": (grid(3, 4), "psf", PrivacyOptions(mode="bloom", bits=1024, encoding="ranges")),
    "hardened": (grid(3, 3), "drp", PrivacyOptions(mode="bloom", kept_hashes=3, fill=0.3)),
}


def played(experiment: Experiment, folder: Path) -> tuple[set[tuple[int, ...]], set[str], RunLayout]:
    """The deliveries that applications kept, the causes of those that they discarded, and the run folder."""
    run = simulated(experiment, folder)
    lines = [json.loads(line) for line in run.simulated_applications.read_text().splitlines()]
    kept: set[tuple[int, ...]] = {
        (line["source"], line["seq"], line["node"]) for line in lines if line["event"] == "deliver"
    }
    return kept, {line["cause"] for line in lines if line["event"] == "discard"}, run


@pytest.mark.parametrize("case", _CASES)
def test_deliveries_are_those_of_the_plain_run(case: str, tmp_path: Path) -> None:
    topology, scheme, privacy = _CASES[case]
    chosen = {
        "routing.scheme": scheme,
        "duration_s": "60",
        "time_scale": "1",
        "workload.changing_receivers_percent": "0",
        "workload.first_message_s": "10",
        "workload.messages_per_minute": "60",
    }
    experiment = load_experiment(find_experiment("default"), chosen, topology=topology)
    plain, none, plain_run = played(experiment, tmp_path)
    private, causes, run = played(replace(experiment, privacy=privacy), tmp_path)
    assert plain
    assert private == plain
    assert not none
    assert "operator" in causes
    assert causes <= {"operator", "hash"}
    assert run.keys.stat().st_mode & 0o777 == 0o600
    # No name and no value of the workload is in a frame; the plain frames show that the search finds them.
    events = [json.loads(line) for line in run.simulated_applications.read_text().splitlines()]
    exact = plain_forms(events)
    captured, readable = captured_bytes(run), captured_bytes(plain_run)
    assert not [form for form in exact if form in captured]
    assert sum(form in readable for form in exact) > 20
    assert any(form in readable for form in exact if len(form) == 8 and b"\0" in form)
    # The links to members that kept a message are the minimal tree; the causes divide all the others.
    judge_run(run, load_experiment(run.experiment))
    with Direct(run.path) as direct:
        found = direct.summary()
    assert found["verdict"] == "holds"
    crossings = found["private"]["crossings"]
    assert crossings["kept"] == found["message_crossings"]["minimal"]
    assert sum(crossings.values()) == found["message_crossings"]["cbcb"]
