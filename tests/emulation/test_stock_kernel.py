"""Runs on a stock kernel: the kernel datapath of Open vSwitch, and links that netem and TBF shape.

Where this machine's kernel lacks them, one guest runs all tests of this file (`.ci/stock-kernel`, User Mode
Linux), and each test here has the outcome of its namesake there.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from math import sqrt
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from xml.etree import ElementTree

import psutil
import pytest

from captures.rundir.inputs import MANIFEST, Calibration
from captures.rundir.measures import read_lag
from router.clock import ClockPage
from router.clock.clock import SharedClock
from router.runtime import commands
from router.wire.header import HOST_PORT
from testbed.emulation.control.running import Running
from testbed.emulation.network.namespaces import Namespaces, run_inside
from testbed.emulation.network.switch_daemons import SWITCHES, SwitchDaemons
from testbed.machine.probes import datapath, kernel_features
from testbed.support.errors import MachineError
from tests.support.applications import application_events
from tests.support.command import CBCB, Cbcb, Held, accounted, output_of
from tests.support.paths import ROOT
from tests.support.polling import TIMEOUT, poll

pytestmark = pytest.mark.emulation

T = TypeVar("T")
_IN_GUEST = "CBCB_STOCK_KERNEL" in os.environ
#: Wall seconds of the guest, its boot included.
_GUEST_S = 900
#: Names of the tests that run in the guest on any machine.
_OF_GUEST: list[str] = []
#: Tests of this file that this process runs, by name: a guest runs no others.
_CHOSEN: list[str] = []


@pytest.fixture(scope="module", autouse=True)
def _chosen(request: pytest.FixtureRequest) -> None:
    _CHOSEN[:] = [item.name for item in request.session.items if item.path == Path(__file__)]


def _here() -> bool:
    """Whether this kernel has what the tests need."""
    return _IN_GUEST or (datapath() == "kernel" and kernel_features().netem and kernel_features().tbf)


def _once(function: Callable[..., T]) -> Callable[..., T]:
    """Calls a function once for the same arguments, also if it raises: the next tests have the same error."""

    @functools.cache
    def kept(*arguments: str) -> tuple[list[T], BaseException | None]:
        try:
            return [function(*arguments)], None
        except (Exception, pytest.skip.Exception) as error:
            return [], error

    @functools.wraps(function)
    def result(*arguments: str) -> T:
        results, error = kept(*arguments)
        if error is not None:
            raise error
        return results[0]

    return result


@_once
def _outcomes() -> Mapping[str, str]:
    """Runs tests in a guest; returns the failures by name, empty for a test that passed.

    Where this kernel can run the rest, only the tests of `_in_guest`.
    """
    # The guest shares this machine's compiled code, and would not keep its own.
    compile_all = [sys.executable, "-c", "from testbed.machine.checks import warm; warm()"]
    subprocess.run(compile_all, cwd=ROOT, check=True, capture_output=True)
    folder = ROOT / "build" / "stock-kernel"
    folder.mkdir(parents=True, exist_ok=True)
    report = folder / "results.xml"
    report.unlink(missing_ok=True)
    inside = [
        sys.executable,
        "-m",
        "pytest",
        *(f"{__file__}::{name}" for name in _CHOSEN if not _here() or name.partition("[")[0] in _OF_GUEST),
        "-p",
        "no:cacheprovider",
        f"--junitxml={report}",
    ]
    guest = [str(ROOT / ".ci" / "stock-kernel"), "-m", "2G", "-t", str(_GUEST_S), "-o", str(folder)]
    done = subprocess.run([*guest, *inside], capture_output=True, text=True, check=False)
    if done.returncode == 125:
        pytest.skip(f"no stock kernel here: {done.stderr.strip().splitlines()[-1]}")
    assert report.exists(), done.stdout[-4000:] + done.stderr[-2000:]
    return {
        case.get("name", ""): "\n".join(f"{part.tag}: {part.get('message')}\n{part.text}" for part in case)
        for case in ElementTree.parse(report).getroot().iter("testcase")
    }


def _on_stock_kernel(test: Callable[..., None], here: Callable[[], bool] = _here) -> Callable[..., None]:
    @functools.wraps(test)
    def outcome(*arguments: Any, **named: Any) -> None:
        if here():
            test(*arguments, **named)
        else:
            name = os.environ["PYTEST_CURRENT_TEST"].split("::")[1].removesuffix(" (call)")
            outcome_there = _outcomes()[name]
            if outcome_there.startswith("skipped"):
                pytest.skip(outcome_there)
            assert outcome_there == ""

    return outcome


def _in_guest(test: Callable[..., None]) -> Callable[..., None]:
    """For a test that compares, or sets, what other programs of a machine in use change too."""
    _OF_GUEST.append(test.__name__)
    return _on_stock_kernel(test, lambda: _IN_GUEST)


@_once
def _default() -> tuple[dict[str, Any], list[str]]:
    """The summary of the default experiment, and the settings of the kernel that its run changed."""
    with tempfile.TemporaryDirectory() as runs:
        before = _settings()
        _started(runs, "default", *(f"--set={key}={value}" for key, value in _FEWER.items())).ends(
            timeout_s=_GUEST_S
        )
        after = _settings()
        (folder,) = Path(runs).iterdir()
        return accounted(folder), sorted(key for key in before if before[key] != after.get(key))


def _settings() -> dict[str, str]:
    """The settings of the kernel (`sysctl -a`): what can be read and written."""
    found = {}
    for path in Path("/proc/sys").rglob("*"):
        if path.is_file() and path.stat().st_mode & 0o600 == 0o600:
            with suppress(OSError):
                found[str(path.relative_to("/proc/sys"))] = path.read_text()
    return {key: value for key, value in found.items() if key != "kernel/ns_last_pid"}


#: Half of the routers and a third of the time, since a guest is slow, with more messages.
_FEWER = {"topology.nodes": 10, "duration_s": 600, "workload.messages_per_minute": 30}


@_on_stock_kernel
def test_the_default_experiment_holds_on_the_kernel_datapath() -> None:
    summary, _ = _default()
    _holds(summary)
    assert summary["deliveries_made"] > 100
    assert summary["switch_drops"] == 0


def _holds(summary: dict[str, Any]) -> None:
    """Asserts that the verdict holds, and that no account of the kernel datapath differs from another."""
    assert (summary["verdict"], summary["verdict_reasons"]) == ("holds", [])
    assert summary["datapath"] == "kernel"
    for name, account in summary["reconciliation"].items():
        assert (account["differences"], account["found"] > 0) == ([], True), name


@_in_guest
def test_a_run_leaves_the_settings_of_the_machine_as_they_were() -> None:
    _, changed = _default()
    assert changed == []


@_on_stock_kernel
def test_an_ovs_vswitchd_that_is_restarted_sends_no_frame_of_its_own(tmp_path: Path) -> None:
    """Into the datapath of the one before it would send a frame of EtherType 0x1234, to try the kernel."""
    (namespace,) = (held := Namespaces()).make(1)
    for line in ("s0-e1 type veth peer name h1", "s0-h type veth peer name h0"):
        run_inside(namespace, ["ip", "link", "add", *line.split()])
    for device in ("s0-e1", "h1", "s0-h", "h0"):
        run_inside(namespace, ["sysctl", "-qw", f"net.ipv6.conf.{device}.disable_ipv6=1"])
        run_inside(namespace, ["ip", "link", "set", device, "up"])
    daemons = SwitchDaemons(tmp_path, [(namespace, {0: [1, HOST_PORT]})], "kernel")
    try:
        daemons.start(tmp_path / "controller")
        before = daemons.counters()
        daemons.of(0).kill(SWITCHES)
        daemons.of(0).restart(SWITCHES)
        daemons.wait_for_database(0)
        assert daemons.counters() == before
        assert daemons.take_dropped()[0]["lost_upcalls"] == 0
    finally:
        daemons.stop()
        held.close()


#: Links with a property each, in both directions, of a line of 6; those of `_SET` come by commands.
_SHAPED = str(Path(__file__).with_name("shaped.toml"))
_SET = ((2, 3, "duplicate=30"), (3, 4, "loss=20"), (4, 5, "delay=30 reorder=25"))


@_once
def _shaped() -> tuple[dict[tuple[int, int, str], Calibration], float, list[str]]:
    """Sends 712 messages over the links: their rows by direction and property, the greatest lag of the
    machine in ms, and the reasons of the verdict."""
    with tempfile.TemporaryDirectory() as folder:
        held = Held(_started(folder, _SHAPED, "--hold"))
        held.wait()
        _send_over_shaped_links(Running.find(held.tag))
        held.run.interrupt()
        held.run.ends()
        run = held.folder
        lag = read_lag(run)
        assert lag is not None
        rows = {(row["sender"], row["receiver"], row["property"]): row for row in MANIFEST.read(run)["links"]}
        reasons = accounted(run.path)["verdict_reasons"]
        return rows, 1e3 * max(part["lag_wall_s"] for part in lag["parts"]), reasons


def _send_over_shaped_links(network: Running) -> None:
    with (
        network.client(0, "near") as near,
        network.client(2, "next") as after,
        network.client(5, "far") as far,
    ):
        for application, name in ((near, "near"), (after, "next"), (far, "far")):
            application.set_predicate(f"{name} > 0")
        network.settle()
        for u, v, settings in _SET:
            network.shape_link(u, v, settings.split())
        with network.client(1, "one") as one, network.client(2, "two") as two:
            # As many as TBF lets wait: they keep the narrow link full for longer than 0.25 s.
            arriving = after.deliveries(TIMEOUT)
            for numbers in (range(1, 57), range(57, 113)):
                for number in numbers:
                    one.start(commands.send_message(f'next = {number}, text = "{"x" * 560}"'))
                assert {next(arriving).attributes["next"] for _ in numbers} == set(numbers)
            for number in range(1, 301):
                one.start(commands.send_message(f"near = {number}"))
                two.start(commands.send_message(f"far = {number}"))
        # The senders have their answers, which they read as they leave.
        got = near.deliveries(TIMEOUT)
        assert {next(got).attributes["near"] for _ in range(300)} == set(range(1, 301))


@_on_stock_kernel
@pytest.mark.parametrize(
    ("sender", "receiver", "name", "required"),
    [
        (1, 0, "delay_ms", 60),
        (1, 0, "jitter_ms", 20),
        (1, 2, "bandwidth_mbps", 0.5),
        (2, 3, "duplicate_percent", 30),
        (3, 4, "loss_percent", 20),
        (4, 5, "delay_ms", 30),
        (4, 5, "reorder_percent", 25),
    ],
)
def test_a_property_of_a_link_is_measured_as_required(
    sender: int, receiver: int, name: str, required: float
) -> None:
    """`-s` prints the row of the table in docs/explanation/emulated-network.md."""
    rows, lag_ms, _ = _shaped()
    row = rows[sender, receiver, name]
    measured, frames = row["measured"], row["frames"]
    print(f"| {name} | {required} | {measured:.4g} | {frames} |")
    assert measured is not None
    assert (row["required"], frames >= 100) == (required, True)
    # Four standard deviations of so many draws. Those of median and quartiles of a uniform jitter are less
    # than its width of 40 ms by the root of the frames. A late machine delays frames, and none is early.
    if name.endswith("percent"):
        assert measured == pytest.approx(required, abs=4 * sqrt(required * (100 - required) / frames))
    elif name == "bandwidth_mbps":
        # A window of 0.25 s begins and ends within a frame of 700 bytes at most.
        assert measured == pytest.approx(required, abs=2 * 700 * 8 / 0.25 / 1e6)
    else:
        spread_ms = 4 * 40 / sqrt(frames)
        assert required - spread_ms <= measured <= required + spread_ms + lag_ms


@_on_stock_kernel
def test_only_the_loss_of_links_fails_the_verdict() -> None:
    # Messages that a fast machine sends in the convergence after the changes may be lost.
    lost = " expected deliveries missed after convergence"
    assert [reason for reason in _shaped()[2] if not reason.endswith(lost)] == []


@_once
def _restarted() -> tuple[dict[str, Any], list[int]]:
    """The summary of the run of restarted.toml, and the marks of the messages that node 5 was delivered."""
    with tempfile.TemporaryDirectory() as runs:
        _started(runs, str(Path(__file__).with_name("restarted.toml"))).ends(timeout_s=_GUEST_S)
        (folder,) = Path(runs).iterdir()
        events = application_events(folder)
        marks = {
            (each["source"], each["seq"]): each["attributes"]["mark"]
            for each in events
            if each["event"] == "send_message" and "mark" in each["attributes"]
        }
        delivered = [each for each in events if (each["event"], each["node"]) == ("deliver", 5)]
        found = (marks.get((each["source"], each["seq"])) for each in delivered)
        return accounted(folder), [mark for mark in found if mark is not None]


@_on_stock_kernel
def test_a_change_of_a_delay_loses_no_frame_under_way() -> None:
    """Five messages are in netem's queue when the delay changes, and when it is taken away."""
    _, marks = _restarted()
    assert sorted(marks) == [*range(1, 11)]


@_on_stock_kernel
def test_a_run_with_restarts_of_switches_database_and_router_holds() -> None:
    summary, _ = _restarted()
    _holds(summary)
    # On a slow machine one epoch follows several events.
    found = {event for epoch in summary["recovery_s"] for event in epoch["events"]}
    assert found >= {"switch_disconnected 0", "switch_disconnected 2", "restart 1"}


@_on_stock_kernel
def test_links_have_their_delay_after_restarts_of_switches() -> None:
    summary, _ = _restarted()
    assert summary["delivery_delay"]["median_s"] > 0.015


@_in_guest
def test_a_run_in_a_group_with_too_little_memory_is_refused(tmp_path: Path) -> None:
    controllers = Path("/sys/fs/cgroup/cgroup.controllers")
    if "memory" not in controllers.read_text().split():
        pytest.skip("no control groups of version 2 with memory in a guest")
    controllers.with_name("cgroup.subtree_control").write_text("+memory")
    group = controllers.parent / "small"
    group.mkdir()
    (group / "memory.max").write_text("200M")
    join = ["sh", "-c", 'echo $$ > "$0/cgroup.procs"; exec "$@"', str(group)]
    done = subprocess.run(
        [*join, *CBCB, "run", "ring5", "--runs", str(tmp_path)], capture_output=True, text=True, check=False
    )
    group.rmdir()
    assert (done.returncode, "memory: takes " in done.stderr) == (MachineError.status, True), done.stderr
    assert not list(tmp_path.iterdir())


class _Killed(NamedTuple):
    """A run that is killed while its network is up.

    Attributes:
        passed_s: seconds of the experiment clock, at rate 1 at most, and of the monotonic clock, in which
            the wall clock was set by an hour.
        delivered: attributes of the messages that a receiver got after that.
        before, up, after: the traces before the run, while it was up, and after `cbcb clean`.
    """

    passed_s: tuple[float, float]
    delivered: list[dict[str, str | int | float]]
    before: dict[str, list[str]]
    up: dict[str, list[str]]
    after: dict[str, list[str]]


@_once
def _killed() -> _Killed:
    with tempfile.TemporaryDirectory() as folder:
        before = _traces()
        held = Held(_started(folder, str(Path(__file__).with_name("pair.toml")), "--hold"))
        held.wait()
        network = Running.find(held.tag)
        clock = SharedClock(ClockPage.open(network.state.clock))
        began_s, began = time.monotonic(), clock.now()
        subprocess.run(["date", "--set", "+1 hour"], check=True, capture_output=True)
        with network.client(0, "far") as far, network.client(1, "near") as near:
            far.set_predicate("hour = 1")
            network.settle()
            near.send_message("hour = 1")
            delivered = [dict(next(far.deliveries(TIMEOUT)).attributes)]
        passed_s = clock.now() - began, time.monotonic() - began_s
        up = _traces()
        held.run.kill()
        held.run.wait()
        output_of("clean")

        def as_before() -> dict[str, list[str]] | None:
            return found if (found := _traces()) == before else None

        with suppress(AssertionError):
            poll(as_before, TIMEOUT, "all is as before")
        return _Killed(passed_s, delivered, before, up, _traces())


@_in_guest
def test_the_experiment_clock_does_not_notice_that_the_wall_clock_is_set() -> None:
    passed_s, wall_s = _killed().passed_s
    assert 0 < passed_s <= wall_s
    assert _killed().delivered == [{"hour": 1}]


@_in_guest
def test_clean_after_a_kill_of_the_run_leaves_nothing() -> None:
    killed = _killed()
    assert all(
        len(killed.up[what]) > len(killed.before[what]) for what in ("namespaces", "processes", "files")
    )
    assert killed.after == killed.before


def _traces() -> dict[str, list[str]]:
    """All that a run could leave: namespaces, devices, datapaths, processes, mounts and files."""

    def lines(*command: str) -> list[str]:
        return sorted(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines())

    return {
        "namespaces": lines("lsns", "--noheadings", "--output", "NS,TYPE"),
        "devices": lines("ip", "-oneline", "link"),
        "datapaths": lines("ovs-dpctl", "dump-dps"),
        # Threads of the kernel have no command line.
        "processes": sorted(filter(None, (" ".join(each.cmdline()) for each in psutil.process_iter()))),
        "mounts": Path("/proc/self/mounts").read_text().splitlines(),
        "files": sorted(map(str, Path("/run/cbcb").rglob("*"))),
    }


def _started(runs: str, *arguments: str) -> Cbcb:
    """`cbcb run --no-account` in a session of its own: imports take seconds in a guest."""
    command = [*CBCB, "run", *arguments, "--runs", runs, "--no-account"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    return Cbcb(process, Path(runs))
