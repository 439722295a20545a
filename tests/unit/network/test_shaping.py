from __future__ import annotations

from testbed.network.shaping import KernelFeatures, missing_features, nft_ruleset, tc_commands
from topos.model import Link, Node, Topology

ALL = KernelFeatures(netem=True, tbf=True, nft_egress=True)
NO_NETEM = KernelFeatures(netem=False, tbf=True, nft_egress=True)
NOTHING = KernelFeatures(netem=False, tbf=False, nft_egress=False)


def _topology(
    bandwidth_mbps: float | None = None, delay_ms: float | None = None, loss_percent: float | None = None
) -> Topology:
    link = Link(0, 0, 1, 1, 1, 1, bandwidth_mbps, delay_ms, loss_percent)
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
        (0, "qdisc add dev s0-e1 root handle 1: netem limit 1000000 delay 5000us loss 1%"),
        (
            0,
            "qdisc add dev s0-e1 parent 1:1 handle 10: tbf rate 10000000bit burst 16384 latency 400ms",
        ),
        (1, "qdisc add dev s1-e1 root handle 1: netem limit 1000000 delay 5000us loss 1%"),
        (
            1,
            "qdisc add dev s1-e1 parent 1:1 handle 10: tbf rate 10000000bit burst 16384 latency 400ms",
        ),
    ]


def test_bandwidth_alone_sits_at_the_root() -> None:
    node, command = next(tc_commands(_topology(bandwidth_mbps=10), NO_NETEM))
    assert node == 0
    assert command.startswith("qdisc add dev s0-e1 root handle 1: tbf rate 10000000bit")


def test_loss_falls_back_to_nftables_only_without_netem() -> None:
    lossy = _topology(loss_percent=2.5)
    assert list(nft_ruleset(lossy, ALL)) == []
    rulesets = list(nft_ruleset(lossy, NO_NETEM))
    assert [node for node, _ in rulesets] == [0, 1]
    for (_, ruleset), device in zip(rulesets, ("s0-e1", "s1-e1"), strict=True):
        assert f"hook egress device {device} priority 0;" in ruleset
        assert "numgen random mod 1000000 < 25000 counter drop" in ruleset
