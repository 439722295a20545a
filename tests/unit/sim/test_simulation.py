"""A whole simulation: its run folder, its determinism, timed events, links that double or lose frames."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from captures.accounting.direct import Direct
from captures.rundir import RunLayout
from captures.rundir.applications import read_applications
from captures.rundir.oracle import ORACLE
from captures.rundir.routing_tables import ROUTING_TABLES
from router.predicates.printer import format_predicate
from testbed.cli.main import main
from testbed.experiments.config.load import load_experiment
from testbed.results.oracle.decide import judge
from testbed.results.oracle.history import read_history
from testbed.sim.simulation import simulate
from testbed.support.errors import RunError
from testbed.terminal.progress import Progress
from tests.support.applications import application_events
from tests.support.paths import ROOT
from tests.support.simulated import simulated

_FILES = Path(__file__).parent
RING, WORKLOAD = (_FILES.joinpath(f"{name}.toml").read_text() for name in ("ring", "workload"))


class _Interrupted(Progress):
    """The user's Ctrl-C comes after the last event."""

    @contextmanager
    def stage(self, key: str, text: str) -> Iterator[None]:
        with super().stage(key, text):
            yield
        if key == "run_s":
            raise KeyboardInterrupt


def test_a_simulation_that_is_interrupted_names_what_it_leaves(tmp_path: Path) -> None:
    (tmp_path / "experiment.toml").write_text(RING)
    experiment = load_experiment(tmp_path / "experiment.toml")
    with pytest.raises(
        KeyboardInterrupt, match=r"^interrupted; .*/runs/.* cannot be accounted for$"
    ) as raised:
        simulate(experiment, tmp_path / "runs", _Interrupted(Console(quiet=True)))
    (left,) = (tmp_path / "runs").iterdir()
    assert str(left) in str(raised.value)


def _simulate(folder: Path, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "experiment.toml"
    path.write_text(text)
    return simulated(path, folder / "runs").path


def _events(run_dir: Path, log: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run_dir / "logs" / log).read_text().splitlines()]


def _counters(run_dir: Path) -> dict[str, dict[str, Any]]:
    counters: dict[str, dict[str, Any]] = json.loads(RunLayout(run_dir).routers_counters.read_text())
    return counters


def _wrong(run_dir: Path) -> tuple[int, list[tuple[int, int, int]]]:
    """Returns the number of expected and decided deliveries, and the missing or spurious deliveries."""
    judgements = {
        (j["source"], j["seq"], j["node"]): j for j in judge(read_history(RunLayout(run_dir)), window_s=0.5)
    }
    made = [
        (int(e["source"]), int(e["seq"]), int(e["node"]))
        for e in application_events(run_dir)
        if e["event"] == "deliver"
    ]
    assert len(made) == len(set(made))
    wanted = {key for key, j in judgements.items() if j["expected"] and j["decided"]}
    unwanted = {key for key in made if key not in judgements}
    return len(wanted), sorted((wanted - set(made)) | unwanted)


def test_the_run_folder_is_that_of_an_emulation(tmp_path: Path) -> None:
    run_dir = _simulate(tmp_path, RING + WORKLOAD)
    captures = json.loads((run_dir / "capture.json").read_text())
    assert {entry["file"] for entry in captures} == {f"pcap/{p.name}" for p in (run_dir / "pcap").iterdir()}
    assert len(captures) == 5 + 6
    manifest = json.loads((run_dir / "manifest.json").read_text())
    assert manifest["datapath"] == "simulated"
    counters = _counters(run_dir)
    assert set(counters) == {"0", "1", "2", "3", "4"}
    assert counters["0"]["frames_sent"]["HELLO"] == 1
    assert ROUTING_TABLES.read(RunLayout(run_dir)).keys() == set(range(5))
    names = [event["event"] for event in _events(run_dir, "controller.jsonl")]
    assert names.index("all_switches_ready") < names.index("epoch_started") < names.index("committed")
    assert set(json.loads((run_dir / "timings.json").read_text())) == {
        *("bring_up_s", "run_s", "teardown_s", "workload_lateness_max_s", "memory_per_router_bytes")
    }
    assert [path.name for path in (run_dir / "logs" / "applications").iterdir()] == ["simulation.jsonl"]


def _digest(run_dir: Path) -> dict[str, str]:
    """Returns every file without facts of the machine or of wall time."""
    apart = {"manifest.json", "timings.json", "simulation.json"}
    return {
        str(path.relative_to(run_dir)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(run_dir.rglob("*"))
        if path.is_file() and path.name not in apart
    }


def test_two_runs_are_equal_byte_for_byte(tmp_path: Path) -> None:
    experiment = tmp_path / "lossy.toml"
    links = "[links]\ndelay_ms = 3\nloss_percent = 2\nbandwidth_mbps = 1\n"
    experiment.write_text(RING + links + "[protocol]\nreliable_control = true\n" + WORKLOAD)
    digests = []
    for hash_seed in ("1", "2"):
        runs = tmp_path / hash_seed
        subprocess.run(
            [
                *(sys.executable, "-m", "testbed.cli.main", "simulate", str(experiment)),
                *("--no-account", "--runs", str(runs)),
            ],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": hash_seed},
            check=True,
            capture_output=True,
        )
        (run_dir,) = runs.iterdir()
        digests.append(_digest(run_dir))
    assert digests[0] == digests[1]
    assert {"pcap/link-0-1.pcap", "logs/applications/simulation.jsonl", "counters/ovs.json"} <= digests[
        0
    ].keys()


@pytest.mark.parametrize("first_s", [0, 5])
def test_first_predicates_after_second_0_are_set_at_once_and_hold_no_message(
    tmp_path: Path, first_s: int
) -> None:
    """Those of second 0 are set a millisecond apart, and the first message waits for the last of them."""
    workload = WORKLOAD.replace("first_message_s = 10", f"first_message_s = 0\nfirst_predicate_s = {first_s}")
    history = read_history(RunLayout(_simulate(tmp_path, RING + workload)))
    first = sorted(timeline[0].requested_ns for timeline in history.timelines.values())
    sent = min(each["requested_ns"] for each in history.sendings)
    assert len(first) == 5
    assert [b - a for a, b in pairwise(first)] == [0 if first_s else 1_000_000] * 4
    assert (sent < first[0]) == (first_s > 0)


def test_messages_take_another_way_when_a_link_is_down(tmp_path: Path) -> None:
    run_dir = _simulate(tmp_path, RING + _FILES.joinpath("link_down.toml").read_text())
    assert _wrong(run_dir) == (3, [])
    names = [event["event"] for event in _events(run_dir, "controller.jsonl")]
    assert names.count("committed") == 3
    assert names.count("link_down") == names.count("link_up") == 1
    counters = _counters(run_dir)
    # 0-1-2 is the shorter way; while 1-2 is down the message reaches 2 from 3.
    assert counters["3"]["messages_forwarded"] == 1


def test_subscriptions_are_parts_of_a_predicate(tmp_path: Path) -> None:
    run_dir = _simulate(tmp_path, RING + _FILES.joinpath("subscriptions.toml").read_text())
    assert _wrong(run_dir) == (4 + 2 + 2, [])
    settings = [
        (
            recorded.event["event"],
            recorded.event.get("subscription"),
            format_predicate(recorded.change.in_force),
        )
        for _, recorded in read_applications(RunLayout(run_dir))
        if recorded.change is not None
    ]
    assert settings == [
        ("set_predicate", None, "x = 50"),
        ("subscribe", 1, "x = 50 or x < 10"),
        ("subscribe", 2, "x = 50 or x < 10 or x > 90"),
        ("unsubscribe", 1, "x = 50 or x > 90"),
        ("subscribe", 3, "x = 50 or x > 90 or x < 5"),
        ("set_predicate", None, "x > 90 or x < 5"),
    ]


def test_a_set_up_that_cannot_succeed_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("testbed.sim.simulation._SET_UP_NS", 2_000_000)
    with pytest.raises(RunError, match="broadcast table"):
        _simulate(tmp_path, RING)


@pytest.mark.parametrize(
    "protocol",
    ["ra_period_s = 0.5", 'sr_policy = "periodic"\nsr_period_s = 2', 'sr_policy = "count"\nsr_threshold = 2'],
)
def test_what_is_periodic_ends_with_the_workload(tmp_path: Path, protocol: str) -> None:
    plain, with_protocol = (
        _simulate(tmp_path / name, RING + section + WORKLOAD)
        for name, section in (("plain", ""), ("periodic", f"[protocol]\n{protocol}\n"))
    )

    def total(run_dir: Path, *names: str) -> int:
        return sum(router[name] for router in _counters(run_dir).values() for name in names)

    assert total(with_protocol, "ras_issued", "srs_issued") > total(plain, "ras_issued", "srs_issued")
    assert total(with_protocol, "urs_missed") == 0
    assert _wrong(with_protocol)[1] == []


# Links that double or lose frames.


@pytest.mark.parametrize(
    "doubling",
    [
        "[links]\nduplicate_percent = 40\n",
        '[[events]]\nat_s = 1\naction = "link_impair"\nduplicate_percent = 40\n',
    ],
)
def test_copies_of_frames_on_links_that_double_them_are_no_fault(tmp_path: Path, doubling: str) -> None:
    path = tmp_path / "doubling.toml"
    path.write_text(_FILES.joinpath("full_ring.toml").read_text() + doubling)
    experiment = load_experiment(path)
    run = simulated(experiment, tmp_path / "runs")
    ORACLE.write(run, judge(read_history(run), experiment.oracle.in_flight_window_s))
    with Direct(run.path) as direct:
        summary = direct.summary()
    assert summary["frames_repeated"] > 0
    assert summary["deliveries_made"] > 0
    assert summary["duplicate_deliveries"] == 0
    assert summary["verdict"] == "holds", summary["verdict_reasons"]


_FILE = str(ROOT / "examples" / "reliable-base.toml")


def _run(folder: Path, loss_percent: int, reliable: str) -> dict[str, Any]:
    """The summary of a run of 12 nodes whose links lose frames until predicates have converged."""
    chosen = {
        "links.loss_percent": loss_percent,
        "protocol.reliable_control": reliable,
        "workload.messages_per_minute": 60,
    }
    settings = [text for key, value in chosen.items() for text in ("--set", f"{key}={value}")]
    where = ["--runs", str(folder), "--engine", "duckdb", "--captures", "none"]
    status = main(["simulate", _FILE, "--topology", "waxman,12", *settings, *where])
    (path,) = folder.glob("*/summary.json")
    summary: dict[str, Any] = json.loads(path.read_text())
    assert (status == 0) == (summary["verdict"] == "holds")
    return summary


def test_confirmed_control_frames_bring_the_false_negatives_of_best_effort_to_zero(tmp_path: Path) -> None:
    missed = {}
    for reliable in ("false", "true"):
        summary = _run(tmp_path / reliable, 20, reliable)
        assert summary["deliveries_decided"] == 400
        missed[reliable] = summary["false_negatives_after_convergence"]
        reasons = [f"{missed[reliable]} expected deliveries missed after convergence"]
        assert summary["verdict_reasons"] == (reasons if missed[reliable] else [])
    assert missed["true"] == 0
    assert missed["false"] > 0
