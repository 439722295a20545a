"""Links shaped by tc and nftables: the commands.

What the kernel makes of them: test_emulated.py, tests/emulation/test_impairments.py and test_stock_kernel.py.
"""

from __future__ import annotations

from dataclasses import replace

from testbed.emulation.network.shaping import changed_nft, changed_tc, nft_ruleset, tc_commands
from testbed.machine.probes import KernelFeatures, missing_features
from topos import Link, Node, Topology

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
