"""The demand and the work of an emulation, and its refusal where the machine has less."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from router.protocol.services.attention.dissemination import AttentionOptions
from testbed.cli.main import main
from testbed.emulation.network.namespaces import descriptors_needed
from testbed.emulation.run.demand import (
    Capacity,
    Demand,
    Estimate,
    accounting,
    capacity,
    demand,
    refuse,
    shortages,
    work_of,
)
from testbed.emulation.run.emulation import _bringing_up
from testbed.emulation.run.governor import CAUTION
from testbed.experiments.config import Experiment, ServiceOptions
from testbed.experiments.config.load import find_experiment, load_experiment
from testbed.experiments.config.topology import parse_topology_argument
from testbed.experiments.events import Event, Publish, Refresh, Register, SendMessage, SetPredicate
from testbed.support.errors import BringUpError, BringUpInterrupted, MachineError, RunError
from testbed.terminal.progress import Progress
from testbed.terminal.summary import WHY_SPARK
from tests.support.attention_experiment import experiment as attention_experiment
from tests.support.optional import some
from tests.support.paths import ROOT
from topos.generators import line

WORK = Estimate(message_hops=10.0, ra_hops=2.0, opening_hops=100.0, opening_s=3.0, rate=8.0)
ENOUGH = Capacity(processes=100_000, memory_bytes=1e12, descriptors=None, disk_bytes=1e12)


def _demand(topology: str = "ring,5", **changes: str) -> Demand:
    overrides = {"duration_s": "100", "time_scale": "10"} | parse_topology_argument(topology) | changes
    return demand(load_experiment(find_experiment("ring5"), overrides), WORK)


def test_the_demand_is_that_of_the_measured_networks() -> None:
    """The constants of the module: bring-up and take-down when idle, memory and processes."""
    middle, large = _demand("ring,200"), _demand("ring,1000")
    assert (middle.processes, large.processes) == (253, 1203)
    assert middle.bring_up_s == pytest.approx(4.5, rel=0.01)
    assert large.bring_up_s == pytest.approx(37.7, rel=0.01)
    # Less the 100 predicates of WORK that have spread over a link.
    for routers, measured in ((20, 429.4e6), (60, 791.0e6), (120, 1332.1e6), (200, 1881.7e6)):
        assert _demand(f"ring,{routers}").memory_bytes - 100 * 25e3 == pytest.approx(measured, rel=0.015)
    # 200 predicates of waxman1000, at 999 other routers each.
    spread = demand(
        load_experiment(find_experiment("ring5"), parse_topology_argument("ring,1000")),
        replace(WORK, opening_hops=200.0 * 999),
    )
    assert spread.memory_bytes == pytest.approx(14_892 * 2**20, rel=0.05)
    assert (middle.descriptors, large.descriptors) == (descriptors_needed(200), descriptors_needed(1000))


def test_each_of_two_machines_has_half_of_all_but_the_own_parts_of_a_run() -> None:
    experiment = load_experiment(find_experiment("ring5"), parse_topology_argument("ring,200"))
    whole, half = demand(experiment, WORK), demand(experiment, WORK, 100)
    # 20 groups of switches, not 12.5.
    assert (half.processes, half.descriptors) == (143, descriptors_needed(100))
    assert 2 * half.memory_bytes - whole.memory_bytes == pytest.approx(255e6 + 15 * 15.2e6)


def test_the_memory_has_the_caches_of_the_routers() -> None:
    work = replace(WORK, publications=500_000)
    small, large = (
        demand(load_experiment(find_experiment("diallo"), {"service.cache_publications": size}), work)
        for size in ("1000", "2500")
    )
    assert large.memory_bytes - small.memory_bytes == pytest.approx(100 * 1500 * 1.1e3)


@pytest.mark.parametrize(("capacity", "cached"), [(3, 3), (1000, 5)])
def test_caches_hold_no_more_than_the_events_of_an_experiment_upload(
    tmp_path: Path, capacity: int, cached: int
) -> None:
    written = attention_experiment(tmp_path / "events.toml", "eon", 3)
    experiment = load_experiment(written, {"service.cache_publications": str(capacity)})
    work = work_of(experiment)[1]
    without = demand(experiment, replace(work, publications=0))
    found = demand(experiment, work).memory_bytes - without.memory_bytes
    assert found == pytest.approx(5 * cached * 1.1e3)


def test_the_disk_is_that_of_the_frames_over_links() -> None:
    # 12 frames a second for 100 s and 100 in the opening; files of each router.
    assert _demand("ring,10").disk_bytes == pytest.approx(1.5e6 + 10 * 20e3 + 1300 * 1500)
    doubled = _demand("ring,10", duration_s="200").disk_bytes - _demand("ring,10").disk_bytes
    assert doubled == pytest.approx(1200 * 1500)


def test_the_wall_time_is_that_of_the_time_scale_or_of_the_rate_that_a_governed_clock_begins_with() -> None:
    fixed, slow, auto = (_demand(time_scale=scale).wall_s for scale in ("10", "5", '"auto"'))
    assert slow - fixed == pytest.approx(10)
    assert auto - fixed == pytest.approx(100 / (CAUTION * WORK.rate) - 100 / 10)


@pytest.mark.parametrize(
    ("lack", "sentence"),
    [
        ({"processes": 9}, "processes: takes 10, 9 may be started (`ulimit -u`)"),
        ({"memory_bytes": 0.1e9}, "memory: takes 300 MB, 100 MB are free"),
        ({"descriptors": 64}, "open files: takes 220, the limit is 64 (`ulimit -Hn`)"),
        ({"disk_bytes": 1e6}, "disk: takes 3.5 MB, 1 MB are free"),
    ],
)
def test_each_limit_has_a_sentence_of_its_own(lack: dict[str, float], sentence: str) -> None:
    values = {**vars(ENOUGH), **lack}
    assert shortages(_demand(), ENOUGH) == []
    assert shortages(_demand(), Capacity(**values)) == [sentence]


def test_a_run_may_take_all_processes_and_files_and_nine_tenths_of_memory_and_disk() -> None:
    wanted = Demand(10, 0.9e9, 220, 0.9e6, 1.0, 1.0)
    just = Capacity(processes=10, memory_bytes=1e9, descriptors=220, disk_bytes=1e6)
    assert shortages(wanted, just) == []
    for name in vars(just):
        less = Capacity(**{**vars(just), name: vars(just)[name] - 1})
        assert len(shortages(wanted, less)) == 1, name
    unlimited = Capacity(processes=None, memory_bytes=1e9, descriptors=None, disk_bytes=1e6)
    assert shortages(replace(wanted, processes=10**9, descriptors=10**9), unlimited) == []


def test_the_capacity_is_what_the_limits_of_process_and_container_and_the_disk_leave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = tmp_path / "groups" / "outer" / "inner"
    group.mkdir(parents=True)
    monkeypatch.setattr("testbed.emulation.run.demand._GROUPS", tmp_path / "groups")
    monkeypatch.setattr("testbed.emulation.run.demand._OWN_GROUP", tmp_path / "own")
    (tmp_path / "own").write_text("1:name=systemd:/other\n0::/outer/inner\n")
    (group / "memory.max").write_text("max\n")
    (group.parent / "pids.max").write_text("50\n")
    (group.parent / "pids.current").write_text("38\n")
    asked: list[Path] = []

    def usage(path: Path) -> SimpleNamespace:
        asked.append(path)
        return SimpleNamespace(free=123)

    monkeypatch.setattr("testbed.emulation.run.demand.shutil.disk_usage", usage)
    monkeypatch.setattr("testbed.emulation.run.demand.resource.getrlimit", lambda _what: (64, 4096))
    monkeypatch.setattr(
        "testbed.emulation.run.demand.psutil.virtual_memory", lambda: SimpleNamespace(available=777)
    )
    assert capacity(tmp_path / "not" / "made") == Capacity(12, 777, 4096, 123)
    assert asked == [tmp_path]


def test_a_demand_beyond_every_limit_is_refused_with_a_line_for_each(tmp_path: Path) -> None:
    vast = Demand(10**9, 1e15, 10**9, 1e18, 1.0, 1.0)
    with pytest.raises(MachineError, match=r"(?s)^processes: .*disk: takes 1e\+09 GB, .*--force$"):
        refuse(shortages(vast, capacity(tmp_path)))


@pytest.mark.parametrize(("force", "status"), [([], 3), (["--force"], 0)])
def test_check_refuses_what_the_machine_cannot_hold_unless_forced(force: list[str], status: int) -> None:
    check = [sys.executable, "-m", "testbed.cli.main", "check", "ring5", "--topology", "ring,100", *force]
    done = subprocess.run(
        ["sh", "-c", 'ulimit -n 400; exec "$@"', "sh", *check], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == status, done.stderr
    assert re.search(r"^  takes       about 143 processes, 1\.\d GB of memory, ", done.stdout, re.MULTILINE)
    assert "  wall time   about " in done.stdout
    assert re.search(r"^  accounting  about .* on Spark \(local\[2\]\)", done.stdout, re.MULTILINE)
    refusal = "refused here: open files: takes 600, the limit is 400 (`ulimit -Hn`)\n"
    assert (refusal in done.stdout) == (status == 3)


def test_the_cache_of_files_of_a_container_is_free_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("testbed.emulation.run.demand._GROUPS", tmp_path)
    monkeypatch.setattr("testbed.emulation.run.demand._OWN_GROUP", tmp_path / "own")
    (tmp_path / "own").write_text("0::/\n")
    (tmp_path / "memory.max").write_text("1000\n")
    (tmp_path / "memory.current").write_text("900\n")
    (tmp_path / "memory.stat").write_text("anon 200\nactive_file 300\ninactive_file 400\n")
    assert capacity(tmp_path).memory_bytes == 800


def _raise(error: BaseException) -> Callable[[], None]:
    def raising() -> None:
        raise error

    return raising


def test_a_bring_up_that_fails_names_its_step_and_has_a_status_of_its_own() -> None:
    progress = Progress(Console(quiet=True))
    with pytest.raises(BringUpError) as failed, progress.stage("bring_up_s", "x"), _bringing_up(progress):
        progress.step("switches")
        _raise(RunError("a daemon died"))()
    assert str(failed.value) == "bring-up failed at switches: a daemon died"
    assert failed.value.status == 5


def test_an_interrupted_bring_up_names_its_step_and_still_is_an_interrupt(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    progress = Progress(Console(quiet=True))
    with (
        pytest.raises(KeyboardInterrupt) as stopped,
        progress.stage("bring_up_s", "x"),
        _bringing_up(progress),
    ):
        progress.step("captures")
        _raise(KeyboardInterrupt())()
    assert isinstance(stopped.value, BringUpInterrupted)
    assert str(stopped.value) == "bring-up interrupted at captures; nothing was sent"
    monkeypatch.setattr("testbed.cli.check.check_command", lambda _arguments: _raise(stopped.value)())
    assert main(["check", "ring5"]) == 5
    assert capsys.readouterr().err == "cbcb: bring-up interrupted at captures; nothing was sent\n"


def _on_a_line(*events: Event, service: str = "exhaustive") -> Experiment:
    """An experiment of 100 s on five nodes, in which nothing happens but these events."""
    chosen = ServiceOptions("attention", AttentionOptions()) if service == "attention" else ServiceOptions()
    return Experiment("line", 1, 100.0, 50.0, line(5), service=chosen, workload=None, events=events)


@pytest.mark.parametrize(("receiver", "hops"), [(0, 0), (1, 1), (4, 4)])
def test_hops_are_those_to_the_receivers_that_want_a_message(receiver: int, hops: int) -> None:
    experiment = _on_a_line(
        SetPredicate(0.0, receiver, "a = 1"),
        SendMessage(20.0, 0, "a = 1"),
        SendMessage(30.0, 0, "a = 2"),
        SetPredicate(40.0, 1, "b = 1"),
    )
    made = work_of(experiment)[1]
    assert (made.message_hops, made.ra_hops) == (hops / 100, 4 / 100)
    assert made.rate > 100 and 0 < made.opening_s < 1


def test_publications_and_subscriptions_of_events_cross_every_link_at_most_once() -> None:
    registered = Register(0.0, 0, "s", "a = 1", max=2, lifetime_s=10.0, freshness_s=10.0)
    events = registered, Refresh(20.0, 0, "s"), Publish(21.0, 4, "a = 1")
    experiment = _on_a_line(*events, service="attention")
    made = work_of(experiment)[1]
    assert (made.message_hops, made.ra_hops, made.opening_hops) == (4 / 100, 8 / 100, 0)
    assert made.describe().startswith(
        "0.04 publications and 0.08 subscriptions and notifications over links per experiment second: "
    )


def test_a_check_of_table_1_names_publications_and_renewals(printed: Callable[..., str]) -> None:
    shown = printed("check", "diallo-small", "--force")
    assert "20000 publications, 400 subscriptions, 293 renewals\n" in shown
    assert " publications and " in shown
    assert "messages" not in shown and "predicates" not in shown


def test_the_accounting_names_its_engine_and_the_other_one_where_a_run_is_small() -> None:
    """The demand grows with frames and with what else the machine does; by engine and start of Spark."""
    experiment = load_experiment(find_experiment("ring5"), {"duration_s": "100"})
    large = replace(WORK, opening_hops=1e6)
    on_spark = accounting(experiment, WORK, "spark", "local[2]", prepared=False)
    text, duckdb = on_spark.split(f" of memory on Spark (local[2]). {WHY_SPARK}: ")
    assert "duckdb" in WHY_SPARK and text.startswith("about ")
    assert accounting(experiment, WORK, "duckdb", "local[2]", prepared=True).startswith(f"{duckdb} on DuckDB")
    seconds = [
        _seconds(accounting(experiment, work, "spark", "spark://a:1", prepared))
        for work, prepared in ((WORK, True), (WORK, False), (replace(WORK, slow=3.0), False), (large, False))
    ]
    assert seconds == sorted(set(seconds)) and seconds[2] == pytest.approx(3 * seconds[1], rel=0.05)
    assert accounting(experiment, large, "spark", "spark://a:1", False).endswith("on Spark (spark://a:1)")


def _seconds(text: str) -> float:
    found = some(re.match(r"about ([\d.]+) (s|min) ", text))
    return float(found[1]) * {"s": 1, "min": 60}[found[2]]


def test_a_rate_beyond_the_estimate_is_warned_of() -> None:
    made = Estimate(message_hops=1000.0, ra_hops=10.0, opening_hops=50.0, opening_s=1.0, rate=12.34)
    assert made.warning(_on_a_line()) == (
        "time_scale 50 is more than the processors keep up with now, and an emulation would be invalid; "
        'expected at most 12, or "auto"'
    )
    assert made.warning(replace(_on_a_line(), time_scale="auto")) is None
    assert made.warning(replace(_on_a_line(), time_scale=12.0)) is None
    assert made.describe() == (
        "1e+03 messages and 10 RAs over links per experiment second: a time scale of about 12 at most; "
        "1 s for the opening"
    )


@pytest.mark.parametrize("key", ["delay_ms", "bandwidth_mbps", "loss_percent"])
def test_a_governed_rate_excludes_links_with_times_of_their_own(key: str) -> None:
    with pytest.raises(ValueError, match=f'time_scale.*: "auto" and {key} of link 0-1 exclude each other'):
        load_experiment(find_experiment("ring5"), {"time_scale": '"auto"', f"links.{key}": "3"})
