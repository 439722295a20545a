"""Faults of a network over two machines: what is left, and what the verdict says."""

from __future__ import annotations

import fcntl
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from captures.rundir import RunLayout
from captures.rundir.faults import FAULTS
from captures.rundir.inputs import MANIFEST, clock_error_s
from testbed.experiments.config.load import find_experiment
from tests.support.applications import deliveries_so_far
from tests.support.command import STATE, Cbcb, accounted, left_behind, output_of
from tests.support.machines import Cluster, Machine, machines
from tests.support.polling import TIMEOUT, poll, wait_for
from tests.support.small_folder import fill

pytestmark = pytest.mark.emulation

Start = Callable[..., tuple[Cbcb, dict[str, Any]]]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with machines(tmp_path_factory.mktemp("machines"), (1, 1)) as found:
        yield found


@pytest.fixture
def start(cluster: Cluster, cbcb: Callable[..., Cbcb], tmp_path: Path) -> Start:
    """Starts a long run of the ring of five, with an event at 60 s; returns it, and its state, when it plays.

    Machine 1 has nodes 1, 2 and 3, machine 2 the others.
    """

    def run(*event: str) -> tuple[Cbcb, dict[str, Any]]:
        lines = ["[[events]]", "at_s = 60", *event] if event else []
        text = find_experiment("ring5").read_text().replace("duration_s = 60", "duration_s = 6000")
        (file := tmp_path / "ring5.toml").write_text("\n".join([text, *lines]))
        # No advertisement is under way that a fault could lose.
        calm = ["--set", "workload.changing_receivers_percent=0"]
        found = cbcb("run", str(file), *calm, "--master", cluster.url, "--no-account", over=cluster)
        state = found.state()
        control = STATE / state["tag"] / "control.sock"
        poll(lambda: control.exists() or found.process.poll(), 300, "the workload is played")
        assert clock_error_s(MANIFEST.read(RunLayout(Path(state["run_dir"])))) > 0
        offered = (Path(f"/proc/{at.outside}/root{STATE}/identity.pem") for at in cluster.machines)
        assert not any(key.exists() for key in offered)  # the run has taken the keys
        return found, state

    return run


def _messages_come(at: Machine) -> None:
    """Waits until applications of a machine have been delivered further messages."""
    runs = partial(at.folder.glob, "cbcb-*")
    before = sum(map(deliveries_so_far, runs()))
    arrived = f"messages are delivered on {at.name}"
    poll(lambda: sum(map(deliveries_so_far, runs())) > before + 10 or None, TIMEOUT, arrived)


def _wait_until_clean(machines: Sequence[Machine], left: Callable[[str], bool] = bool) -> None:
    """Waits until nothing remains on machines of what `left` selects."""
    wait_for(lambda: "; ".join(filter(left, (each for at in machines for each in at.remains()))) or None)


def _ended(state: dict[str, Any], faults: list[str], why: str) -> dict[str, Any]:
    """Returns the summary of a run that has ended early, for which the verdict gives the reason first."""
    run = RunLayout(Path(state["run_dir"]))
    summary = accounted(run.path)
    assert [f"{each['part']} {each['what']}" for each in FAULTS.read_all(run)] == faults
    assert summary["verdict"] == "fails"
    assert re.fullmatch(rf"the run ended at [0-9.]+ s: {why}", summary["verdict_reasons"][0])
    assert summary["deliveries_decided"] > 0 and summary["frames_by_type"]["MSG"] > 0
    assert summary["false_negatives_after_convergence"] == 0
    return summary


def test_a_cut_tunnel_and_a_restarted_worker_end_no_run_but_ctrl_c_does(
    cluster: Cluster, start: Start
) -> None:
    run, state = start('action = "tunnel_down"', "link = [3, 4]", "down_s = 60")
    one, two = cluster.machines
    _messages_come(two)
    one.kill_worker()
    one.start_worker()
    faults = RunLayout(Path(state["run_dir"])).faults
    poll(lambda: '"joined"' in faults.read_text() or None, TIMEOUT, "the tunnel carries frames")
    _messages_come(one)
    _messages_come(two)
    run.interrupt()
    run.ends(130)
    _wait_until_clean(cluster.machines)
    summary = _ended(state, ["tunnel cut", "tunnel joined", "run lost"], "its user interrupted it")
    # No evidence is missing, and none contradicts another; what the tunnel has lost is open.
    assert len(summary["verdict_reasons"]) == 1, summary["verdict_reasons"]
    assert summary["false_negatives"] > 0 and summary["deliveries_undecided"] > 0


def test_a_machine_that_is_lost_ends_the_run(cluster: Cluster, start: Start) -> None:
    run, state = start('action = "machine_lost"', "node = 4")
    run.ends(1)
    _wait_until_clean(cluster.machines[:1])
    # Its files are left until the next run there, which is that of the test below.
    _wait_until_clean(cluster.machines, lambda left: not left.startswith("/"))
    _ended(state, ["machine killed", "machine lost"], r"m2 \(10.99.0.2\) does not answer.*")


def test_the_kill_of_the_driver_leaves_nothing_after_clean(cluster: Cluster, start: Start) -> None:
    run, state = start()
    _messages_come(cluster.machines[0])
    run.kill()
    run.wait()
    _wait_until_clean(cluster.machines)
    assert "removed what 1 dead runs left" in output_of("clean")
    assert left_behind(state) == []


def test_check_refuses_a_machine_that_is_in_use(cluster: Cluster, cbcb: Callable[..., Cbcb]) -> None:
    folder = Path(f"/proc/{cluster.machines[1].outside}/root/run/cbcb")
    folder.mkdir(exist_ok=True)
    with (folder / "machine.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        large = "ring5", "--topology", "waxman,1000"
        said = cbcb("check", *large, "--master", cluster.url, over=cluster).ends(3)
    assert "m2 (10.99.0.2): 500 routers, " in said and "another run has m2 (10.99.0.2)" in said


def test_machines_keep_what_the_disk_of_the_driver_does_not_take(
    cluster: Cluster, start: Start, tmp_path: Path
) -> None:
    mount = ["mount", "-t", "tmpfs", "tmpfs", str(tmp_path), "-o"]
    subprocess.run([*mount, "size=1g"], check=True)
    try:
        run, state = start()
        for at in cluster.machines:
            _messages_come(at)
        subprocess.run([*mount, "remount,size=8m"], check=True)
        fill(tmp_path)
        run.interrupt()
        printed = " ".join(run.ends(3).split())
        _wait_until_clean(cluster.machines, lambda left: "cbcb-kept-" not in left)
        for at in cluster.machines:
            (kept,) = at.folder.glob(f"cbcb-kept-{Path(state['run_dir']).name}-*")
            assert f"keeps its files in {kept}: copy and delete them" in printed
            assert f"{at.name}: left alone: {kept}, files of a run" in printed
            assert deliveries_so_far(kept) > 10 and [*RunLayout(kept).captures_folder.iterdir()]
            shutil.rmtree(kept)
    finally:
        subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)


# Then machine 1 is lost to the cluster: this test is the last.
def test_a_machine_without_a_network_takes_its_part_down(cluster: Cluster, start: Start) -> None:
    run, state = start()
    _messages_come(cluster.machines[0])
    cluster.machines[0].set_up(False)
    run.ends(1, timeout_s=60)
    _wait_until_clean(cluster.machines)
    _ended(state, ["machine lost"], r"m1 \(10.99.0.1\) does not answer.*")
