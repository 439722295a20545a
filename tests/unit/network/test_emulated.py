"""The properties of a link in use: those that are asked for at both ends, or those of before."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from testbed.cli import run
from testbed.emulation.control.quiescence import quiet_period_s
from testbed.emulation.network import namespaces, switch_daemons
from testbed.emulation.network.emulated import EmulatedNetwork
from testbed.emulation.network.namespaces import run_inside
from testbed.emulation.network.switch_daemons import SwitchDaemons
from testbed.machine.probes import kernel_features
from testbed.support.errors import InputError, MachineError, RunError
from testbed.terminal.progress import Progress
from topos.generators import ring, star

pytestmark = pytest.mark.root


@pytest.fixture
def network(tmp_path: Path) -> Iterator[EmulatedNetwork]:
    """Hosts and links without switches."""
    kernel = kernel_features()
    if not kernel.tbf:
        pytest.skip("this kernel offers no TBF")
    made = EmulatedNetwork(ring(12), tmp_path, "user", kernel)
    try:
        made.start_hosts()
        made.start_links()
        yield made
    finally:
        made.stop()


def _queues(network: EmulatedNetwork, node: int, device: str) -> str:
    namespace = network.switch_namespaces[node]
    show = ["nsenter", f"--net={namespace}", "tc", "qdisc", "show", "dev", device]
    return subprocess.run(show, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("before", [None, 5.0])
def test_a_change_that_fails_at_one_end_leaves_what_was_at_both(
    network: EmulatedNetwork, before: float | None
) -> None:
    # The first and the last node of the ring, whose switches are in different namespaces.
    link = next(link for link in network.topology.links if {link.u, link.v} == {0, 11})
    first, second = f"s{link.u}-e{link.u_port}", f"s{link.v}-e{link.v_port}"
    if before is not None:
        network.shape((0, 11), {"bandwidth_mbps": before})
    # The second end is not as the network left it, so that its change fails after that of the first.
    spoil = "" if before is None else f"qdisc del dev {second} root\n"
    spoil += f"qdisc add dev {second} root handle 1: pfifo"
    run_inside(network.switch_namespaces[link.v], ["tc", "-batch", "-"], f"{spoil}\n")
    with pytest.raises(RunError, match="Command failed"):
        network.shape((0, 11), {"bandwidth_mbps": 7.0})
    for node, device in ((link.u, first), (link.v, second)):
        shown = _queues(network, node, device)
        assert ("rate 5Mbit" in shown) == (before is not None), shown
        assert "rate 7Mbit" not in shown and "pfifo" not in shown
    # The restored properties begin a span.
    spans = network.spans()
    assert [each.link.bandwidth_mbps for each in spans] == ([] if before is None else [before] * 4)
    assert all(a.ended_ns <= b.began_ns for a, b in zip(spans[:2], spans[2:], strict=True))
    # The link takes another change, as if nothing had been.
    assert network.shape((0, 11), {"bandwidth_mbps": 9.0})[0].bandwidth_mbps == 9
    assert all(
        "rate 9Mbit" in _queues(network, node, device) for node, device in ((link.u, first), (link.v, second))
    )


def test_former_properties_of_a_link_count_while_they_may_delay_a_frame(
    network: EmulatedNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [time.time_ns()]
    monkeypatch.setattr(time, "time_ns", lambda: clock[0])

    def rates() -> set[float | None]:
        return {link.bandwidth_mbps for link in network.links_so_far(quiet_period_s)}

    network.shape((0, 1), {"bandwidth_mbps": 5.0})
    network.shape((0, 1), {"bandwidth_mbps": None})
    assert rates() == {5, None}
    clock[0] += 10**10
    assert rates() == {None}


@pytest.mark.parametrize("name", ["delay_ms", "jitter_ms", "reorder_percent"])
def test_a_running_link_is_refused_what_needs_netem(network: EmulatedNetwork, name: str) -> None:
    """As `cbcb link U V set` and events ask for it; the link stays as it was."""
    if network.kernel.netem:
        pytest.skip("this kernel has netem")
    before = network.shape((0, 1), {"bandwidth_mbps": 5.0})
    properties = {"delay_ms": 5.0, name: 3.0}
    text = f"link 0-1 asks for delay_ms = {properties['delay_ms']:g}, which needs the kernel's sch_netem"
    with pytest.raises(InputError, match=re.escape(text)):
        network.shape((0, 1), properties)
    assert network.shape((0, 1), {}) == before


def test_all_links_change_with_one_command_of_each_kind_a_namespace(
    network: EmulatedNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver of the workload waits meanwhile: with a command for each link, a large run was late."""
    if not network.kernel.nft_egress or network.kernel.netem:
        pytest.skip("this kernel does not lose frames by nftables")
    asked: list[tuple[str, str]] = []

    def counted(namespace: str, argv: Sequence[str], lines: str = "") -> str:
        # One reads the counters of the properties of before.
        asked.append((namespace, " ".join(argv[:2])))
        return run_inside(namespace, argv, lines)

    monkeypatch.setattr(namespaces, "run_inside", counted)
    for rate, loss in ((5.0, 1.0), (7.0, 2.0)):
        asked.clear()
        network.shape(None, {"bandwidth_mbps": rate, "loss_percent": loss})
        assert len(asked) == len(set(asked))
        for link in network.topology.links:
            for node, port in ((link.u, link.u_port), (link.v, link.v_port)):
                assert f"rate {rate:g}Mbit" in _queues(network, node, f"s{node}-e{port}")
        for namespace in {network.switch_namespaces[node.id] for node in network.topology.nodes}:
            listed = ["nsenter", f"--net={namespace}", "nft", "list", "ruleset"]
            rules = subprocess.run(listed, capture_output=True, text=True, check=True).stdout
            ends = sum(
                network.switch_namespaces[node] == namespace
                for link in network.topology.links
                for node in (link.u, link.v)
            )
            assert rules.count(f"< {loss * 10_000:.0f} counter") == rules.count("hook egress") == ends
    # Both ends of each link while it had the first properties, and while it had the second.
    spans = network.spans()
    assert [each.link.loss_percent for each in spans] == [1.0] * 24 + [2.0] * 24
    assert len({(each.sender, each.receiver) for each in spans}) == 24
    # A span begins where the one before it ends.
    before, after = spans[:24], spans[24:]
    assert all(a.began_ns < a.ended_ns <= b.began_ns < b.ended_ns for a, b in zip(before, after, strict=True))


def test_a_host_that_cannot_be_ended_leaves_no_other_and_is_ended_by_the_next_call(
    network: EmulatedNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[str] = []

    def noted(node: Any, fails: bool) -> Callable[[], None]:
        end = node.terminate

        def terminate() -> None:
            if fails and node.name not in ended:
                ended.append(node.name)
                raise OSError(5, "Input/output error")
            end()
            ended.append(node.name)

        return terminate

    hosts = list(network.net.hosts)
    for number, host in enumerate(hosts):
        monkeypatch.setattr(host, "terminate", noted(host, number == 3))
    with pytest.raises(RunError, match=r"^r3: \[Errno 5\] Input/output error$"):
        network.stop()
    assert ended == [host.name for host in hosts]
    network.stop()
    assert ended == [host.name for host in hosts] * 2
    network.stop()
    assert len(ended) == 24


def test_more_ports_than_the_kernel_queues_frames_are_refused_with_the_kernel_datapath(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(namespaces, "_BACKLOG", tmp_path / "limit")
    for limit, datapath, refused in ((79, "kernel", True), (79, "user", False), (80, "kernel", False)):
        (tmp_path / "limit").write_text(f"{limit}\n")
        made = EmulatedNetwork(star(40), tmp_path, datapath, kernel_features())
        with pytest.raises(MachineError, match="=80`, or") if refused else nullcontext():
            made.start_hosts()
        made.stop()


def test_a_run_chooses_its_datapath_by_the_queues_of_the_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(namespaces, "_BACKLOG", tmp_path / "limit")
    monkeypatch.setattr(run, "datapath", lambda: "kernel")
    monkeypatch.setattr(run, "why_no_tun", lambda: None)
    output = io.StringIO()
    progress = Progress(Console(file=output, width=400))
    for limit, chosen in ((80, "kernel"), (79, "user")):
        (tmp_path / "limit").write_text(f"{limit}\n")
        assert run.choose_datapath("auto", star(40), progress) == chosen
    assert "datapath: user, since a switch has 40 ports" in output.getvalue()
    with pytest.raises(MachineError, match="=80`, or"):
        run.choose_datapath("kernel", star(40), progress)
    assert run.choose_datapath("user", star(40), progress) == "user"


def test_threads_that_end_do_not_end_their_daemon(tmp_path: Path) -> None:
    """They are listed and then read: some have ended in between."""
    daemon = SwitchDaemons(tmp_path, [("/proc/self/ns/net", {0: [1]})], "kernel")._daemons[0]
    code = "from threading import Thread\nwhile True:\n t = Thread(target=str)\n t.start()\n t.join()"
    with subprocess.Popen([sys.executable, "-c", code]) as process:
        daemon.processes.append(process)
        try:
            assert not any(daemon.has_handlers() for _ in range(2000))
        finally:
            process.kill()
    with pytest.raises(RunError, match="has ended"):
        daemon.has_handlers()


Sleeping = tuple[SwitchDaemons, list[subprocess.Popen[bytes]]]


@pytest.fixture
def sleeping(tmp_path: Path) -> Sleeping:
    """Three daemons, each with a process that ends only by a signal."""
    daemons = SwitchDaemons(tmp_path, [("/proc/self/ns/net", {n: [1]}) for n in range(3)], "user")
    processes = [subprocess.Popen(["sleep", "3600"]) for _ in daemons._daemons]
    for daemon, process in zip(daemons._daemons, processes, strict=True):
        daemon.processes.append(process)
    return daemons, processes


def test_a_daemon_that_cannot_be_ended_leaves_no_other_and_is_ended_by_the_next_call(
    sleeping: Sleeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemons, processes = sleeping

    def refused() -> None:
        raise PermissionError(1, "Operation not permitted")

    def expired(timeout: float) -> int:
        raise subprocess.TimeoutExpired("ovs-vswitchd", timeout)

    with monkeypatch.context() as patch:
        patch.setattr(daemons._daemons[0], "end", refused)
        # As if the time that all daemons share to end had passed.
        patch.setattr(processes[0], "wait", expired)
        said = r"^ovs-vswitchd of the switches s0 to s0: .*not permitted; ovs-vs"
        with pytest.raises(RunError, match=said):
            daemons.stop()
    assert (processes[0].poll(), processes[1].wait(), processes[2].wait()) == (None, -9, -9)
    assert daemons.pids == [processes[0].pid]
    daemons.stop()
    assert (processes[0].wait(), daemons.pids) == (-9, [])


def test_daemons_that_do_not_end_share_one_deadline(
    sleeping: Sleeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemons, processes = sleeping
    waited: list[float] = []

    def noted(process: subprocess.Popen[bytes]) -> Callable[[float], int]:
        wait = process.wait

        def recorded(timeout: float) -> int:
            waited.append(timeout)
            return wait(timeout)

        return recorded

    with monkeypatch.context() as patch:
        patch.setattr(switch_daemons, "_ENDS_S", 0.1)
        for daemon, process in zip(daemons._daemons, processes, strict=True):
            patch.setattr(daemon, "end", lambda: None)
            patch.setattr(process, "wait", noted(process))
        said = r"^ovs-vswitchd of .*s0.*; ovs-vswitchd of .*s1.*; ovs-vswitchd of .*s2"
        with pytest.raises(RunError, match=said):
            daemons.stop()
    assert 0 < waited[0] <= 0.1
    assert waited[1:] == [0.0, 0.0]
    daemons.stop()
    assert [process.wait() for process in processes] == [-9, -9, -9]
