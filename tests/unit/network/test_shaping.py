from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from captures.rundir import RunLayout
from testbed.emulation.network.calibration import Span, calibrations, read_counters
from testbed.emulation.network.shaping import changed_nft, changed_tc, nft_ruleset, tc_commands
from testbed.machine.probes import KernelFeatures, kernel_features, missing_features
from topos import TBF_BURST_BYTES, Link, Node, Topology

ALL = KernelFeatures(netem=True, tbf=True, nft_egress=True)
NO_NETEM = KernelFeatures(netem=False, tbf=True, nft_egress=True)
DUP = replace(NO_NETEM, nft_dup=True)
NOTHING = KernelFeatures(netem=False, tbf=False, nft_egress=False)


def _topology(
    bandwidth_mbps: float | None = None,
    delay_ms: float | None = None,
    loss_percent: float | None = None,
    **others: float,
) -> Topology:
    link = Link(0, 0, 1, 1, 1, 1, bandwidth_mbps, delay_ms, loss_percent, **others)
    return Topology("pair", (Node(0), Node(1)), (link,))


def test_a_link_without_properties_needs_and_does_nothing() -> None:
    plain = _topology()
    assert missing_features(plain, NOTHING) == []
    assert list(tc_commands(plain, ALL)) == []
    assert list(nft_ruleset(plain, NO_NETEM)) == []


def test_what_the_kernel_cannot_give_is_named() -> None:
    assert missing_features(_topology(delay_ms=5), NO_NETEM) == [
        "link 0-1 asks for delay_ms = 5, which needs the kernel's sch_netem"
    ]
    assert missing_features(_topology(loss_percent=1), NO_NETEM) == []
    (loss,) = missing_features(_topology(loss_percent=1), NOTHING)
    assert "loss_percent = 1" in loss
    (bandwidth,) = missing_features(_topology(bandwidth_mbps=10), NOTHING)
    assert "sch_tbf" in bandwidth


def test_both_ends_are_shaped_each_in_the_namespace_of_its_switch() -> None:
    commands = list(tc_commands(_topology(10, 5, 1), ALL))
    assert commands == [
        (0, "qdisc replace dev s0-e1 root handle 1: netem limit 1000000 delay 5000us loss 1%"),
        (
            0,
            "qdisc replace dev s0-e1 parent 1:1 handle 10: tbf rate 10000000bit burst 16384 latency 400ms",
        ),
        (1, "qdisc replace dev s1-e1 root handle 1: netem limit 1000000 delay 5000us loss 1%"),
        (
            1,
            "qdisc replace dev s1-e1 parent 1:1 handle 10: tbf rate 10000000bit burst 16384 latency 400ms",
        ),
    ]


def test_bandwidth_alone_sits_at_the_root() -> None:
    node, command = next(tc_commands(_topology(bandwidth_mbps=10), NO_NETEM))
    assert node == 0
    assert command.startswith("qdisc replace dev s0-e1 root handle 1: tbf rate 10000000bit")


def test_loss_falls_back_to_nftables_only_without_netem() -> None:
    lossy = _topology(loss_percent=2.5)
    assert list(nft_ruleset(lossy, ALL)) == []
    rulesets = list(nft_ruleset(lossy, NO_NETEM))
    assert [node for node, _ in rulesets] == [0, 1]
    for (_, ruleset), device in zip(rulesets, ("s0-e1", "s1-e1"), strict=True):
        assert f"hook egress device {device} priority 0;" in ruleset
        assert "numgen random mod 1000000 < 25000 counter drop" in ruleset


def test_netem_has_all_properties_and_nftables_doubles_frames_without_it() -> None:
    all_of_them = _topology(None, 5, 1, jitter_ms=2, reorder_percent=3, duplicate_percent=4)
    (_, command), _ = tc_commands(all_of_them, ALL)
    assert command.endswith("netem limit 1000000 delay 5000us 2000us loss 1% duplicate 4% reorder 3%")
    doubling = _topology(loss_percent=1, duplicate_percent=4)
    assert missing_features(doubling, ALL) == missing_features(doubling, DUP) == []
    (problem,) = missing_features(doubling, NO_NETEM)
    assert "duplicate_percent = 4" in problem
    (_, ruleset), _ = nft_ruleset(doubling, DUP)
    rules = ruleset.splitlines()
    # Lost frames are not doubled.
    assert rules[5].endswith("< 10000 counter drop")
    assert rules[6].endswith("< 40000 counter meta mark set 0xcbcb dup to s0-e1")


def test_jitter_and_reordering_are_refused_without_netem() -> None:
    found = missing_features(_topology(delay_ms=5, jitter_ms=2, reorder_percent=3), DUP)
    assert [problem.split()[4] for problem in found] == ["delay_ms", "jitter_ms", "reorder_percent"]


@pytest.mark.root
def test_nftables_loses_and_doubles_as_many_frames_as_it_is_told(tmp_path: Path) -> None:
    """5,000 frames over a link of a namespace: the calibration of loss and duplicates."""
    if not kernel_features().nft_dup:
        pytest.skip("this kernel offers no nftables egress with dup")
    (_, ruleset), _ = nft_ruleset(_topology(loss_percent=20, duplicate_percent=30), DUP)
    script = f"""
ip link add s0-e1 type veth peer name s1-e1; ip link set s0-e1 up; ip link set s1-e1 up
nft -f - <<'E'
{ruleset}
table netdev far {{
  chain in {{
    type filter hook ingress device s1-e1 priority 0;
    ether type 0x88b5 counter
  }}
}}
E
{sys.executable} -c '
import socket
sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
sender.bind(("s0-e1", 0x88B5))
for _ in range(5000):
    try:
        sender.send(b"\\xff" * 12 + b"\\x88\\xb5" + bytes(50))
    except OSError:  # The kernel reports a dropped frame as an error.
        pass
'
nft -j list table netdev far; nft -j list ruleset"""
    argv = ["unshare", "--net", "bash", "-e", "-c", script]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    far, ruleset = done.stdout.splitlines()
    rules = [each["rule"] for each in json.loads(far)["nftables"] if "rule" in each]
    arrived = next(part["counter"]["packets"] for part in rules[0]["expr"] if "counter" in part)
    # 5,000 * 0.8 * 1.3, whose standard deviation is 47.
    assert 4_800 < arrived < 5_600
    (link,) = _topology(loss_percent=20, duplicate_percent=30).links
    counted = read_counters("[]", ruleset)
    assert counted.keys() == {"s0-e1"}
    loss, duplicates = calibrations(RunLayout(tmp_path), [Span(link, 0, 1, 2, counted["s0-e1"])])
    assert (loss["property"], duplicates["property"]) == ("loss_percent", "duplicate_percent")
    lost, doubled = loss["measured"], duplicates["measured"]
    assert (loss["sender"], loss["receiver"], loss["since_ns"], loss["until_ns"]) == (0, 1, 1, 2)
    assert (loss["required"], duplicates["required"]) == (20, 30)
    # The kernel sends some frames of its own.
    assert 5_000 <= loss["frames"] < 5_020
    assert lost is not None
    assert doubled is not None
    # Six standard deviations.
    assert 16 < lost < 24
    assert 25 < doubled < 35
    left = loss["frames"] * (1 - lost / 100)
    assert duplicates["frames"] == round(left)
    assert arrived <= round(left * (1 + doubled / 100)) < arrived + 40


#: Sends 120 frames of 1,400 bytes; prints the seconds from before the first to the last arrival.
_TIMED = """
import socket, time
SOCKETS = [socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x88B5)) for _ in range(2)]
for one, device in zip(SOCKETS, ("s0-e1", "s1-e1")):
    one.bind((device, 0x88B5))
sender, receiver = SOCKETS
receiver.settimeout(60)
since = time.monotonic()
for _ in range(120):
    sender.send(b"\\xff" * 12 + b"\\x88\\xb5" + bytes(1386))
for _ in range(120):
    receiver.recv(2048)
print(time.monotonic() - since)
"""


@pytest.mark.root
def test_a_bandwidth_is_never_exceeded_and_loses_nothing_that_its_queue_takes() -> None:
    """168 kB over a link of 4 Mbit/s: but for the burst, they take a third of a second."""
    kernel = kernel_features()
    if not kernel.tbf:
        pytest.skip("this kernel offers no TBF")
    lines = "\ntc ".join(line for node, line in tc_commands(_topology(bandwidth_mbps=4), kernel) if node == 0)
    script = f"""
ip link add s0-e1 type veth peer name s1-e1; ip link set s0-e1 up; ip link set s1-e1 up
tc {lines}
{sys.executable} - <<'E'
{_TIMED}
E"""
    argv = ["unshare", "--net", "bash", "-e", "-c", script]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rate_mbps = (120 * 1400 - TBF_BURST_BYTES) * 8 / float(done.stdout) / 1e6
    print(f"4 Mbit/s asked for, {rate_mbps:.2f} measured")
    assert rate_mbps < 4 * 1.02


def test_a_link_in_use_keeps_the_disciplines_of_properties_that_it_loses() -> None:
    """Removing them would lose the frames in their queues."""
    (slow,), (lossy,), (plain,) = (
        each.links for each in (_topology(bandwidth_mbps=5), _topology(loss_percent=1), _topology())
    )
    unlimited = "tbf rate 10000000000bit burst 100000000 latency 400ms"
    assert list(changed_tc(slow, lossy, NO_NETEM)) == [
        (0, f"qdisc replace dev s0-e1 root handle 1: {unlimited}"),
        (1, f"qdisc replace dev s1-e1 root handle 1: {unlimited}"),
    ]
    assert list(changed_tc(plain, slow, NO_NETEM)) == list(tc_commands(_topology(bandwidth_mbps=5), NO_NETEM))
    assert [line for node, line in changed_tc(replace(slow, delay_ms=3), plain, ALL) if node == 0] == [
        "qdisc replace dev s0-e1 root handle 1: netem limit 1000000",
        f"qdisc replace dev s0-e1 parent 1:1 handle 10: {unlimited}",
    ]
    assert list(changed_tc(plain, plain, ALL)) == []
    removed, again = list(changed_nft(plain, NO_NETEM)), list(changed_nft(lossy, NO_NETEM))
    assert [node for node, _ in removed] == [0, 1]
    assert removed == again[:2]
    assert again[2:] == list(nft_ruleset(_topology(loss_percent=1), NO_NETEM))
    assert list(changed_nft(lossy, ALL)) == []


@pytest.mark.root
def test_the_kernel_takes_the_changes_of_a_link_one_after_the_other() -> None:
    """In a namespace of its own, with the devices of both ends of a link."""
    kernel = kernel_features()
    if not (kernel.tbf and (kernel.nft_egress or kernel.netem)):
        pytest.skip("this kernel offers no TBF or no way to lose frames")
    states = [
        each.links[0]
        for each in (_topology(), _topology(5, None, 2), _topology(None, None, 50), _topology(7), _topology())
    ]
    script = ["ip link add s0-e1 type veth peer name s1-e1"]
    for before, after in pairwise(states):
        tc = "\n".join(line for _, line in changed_tc(before, after, kernel))
        nft = "\n".join(line for _, line in changed_nft(after, kernel))
        script.append(f"tc -batch - <<'E'\n{tc}\nE")
        if nft:
            script.append(f"nft -f - <<'E'\n{nft}\nE")
        script.append("tc qdisc show dev s0-e1; nft list ruleset; echo ----")
    done = subprocess.run(
        ["unshare", "--net", "bash", "-e", "-c", "\n".join(script)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    both, loss, bandwidth, none, _ = done.stdout.split("----\n")
    assert "rate 5Mbit" in both and "rate 7Mbit" in bandwidth
    assert "rate 10Gbit" in loss and "rate 10Gbit" in none
    dropping = (" drop", " loss ")
    assert [any(word in part for word in dropping) for part in (both, loss, bandwidth, none)] == [
        *(True, True),
        *(False, False),
    ]
