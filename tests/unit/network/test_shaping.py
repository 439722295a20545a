from __future__ import annotations

from testbed.network.names import Names
from testbed.network.shaping import KernelFeatures, missing_features, nft_ruleset, tc_commands
from topos.model import Link, Node, Topology

NAMES = Names("abc")
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
    assert list(tc_commands(plain, NAMES, ALL)) == []
    assert nft_ruleset(plain, NAMES, NO_NETEM) == ""


def test_what_the_kernel_cannot_give_is_named() -> None:
    assert missing_features(_topology(delay_ms=5), NO_NETEM) == [
        "link 0-1 asks for delay_ms = 5, which needs the kernel's sch_netem"
    ]
    assert missing_features(_topology(loss_percent=1), NO_NETEM) == []
    (loss,) = missing_features(_topology(loss_percent=1), NOTHING)
    assert "loss_percent = 1" in loss
    (bandwidth,) = missing_features(_topology(bandwidth_mbps=10), NOTHING)
    assert "sch_tbf" in bandwidth


def test_both_ends_are_shaped() -> None:
    commands = list(tc_commands(_topology(10, 5, 1), NAMES, ALL))
    assert commands == [
        "qdisc add dev cabcs0-e1 root handle 1: netem limit 1000000 delay 5000us loss 1%",
        "qdisc add dev cabcs0-e1 parent 1:1 handle 10: tbf rate 10000000bit burst 16384 latency 400ms",
        "qdisc add dev cabcs1-e1 root handle 1: netem limit 1000000 delay 5000us loss 1%",
        "qdisc add dev cabcs1-e1 parent 1:1 handle 10: tbf rate 10000000bit burst 16384 latency 400ms",
    ]


def test_bandwidth_alone_sits_at_the_root() -> None:
    commands = list(tc_commands(_topology(bandwidth_mbps=10), NAMES, NO_NETEM))
    assert commands[0].startswith("qdisc add dev cabcs0-e1 root handle 1: tbf rate 10000000bit")


def test_loss_falls_back_to_nftables_only_without_netem() -> None:
    lossy = _topology(loss_percent=2.5)
    assert nft_ruleset(lossy, NAMES, ALL) == ""
    ruleset = nft_ruleset(lossy, NAMES, NO_NETEM)
    assert ruleset.count("numgen random mod 1000000 < 25000 counter drop") == 2
    assert "table netdev cbcb_abc" in ruleset
