"""Properties of links: the commands that shape them, and what counters and captures show of them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from captures.rundir import RunLayout
from captures.rundir.capture_list import host_identity, link_identity
from router.wire.header import node_address
from testbed.emulation.network.calibration import MEASURES, Counted, Span, calibrations, read_counters
from testbed.emulation.network.shaping import changed_nft, changed_tc, nft_ruleset, tc_commands
from testbed.machine.probes import KernelFeatures, missing_features
from tests.support.capture_files import pcap
from topos import PROPERTIES, TBF_BURST_BYTES, Link, Node, Topology

LINK = Link(0, 1, index=0, u_port=1, v_port=1)
_NS = 1_000_000_000
_MS = 1_000_000

#: Of the output of `tc -s -j qdisc show` (iproute2 6.1, `print_qdisc`), the fields that are read.
NETEM = {"kind": "netem", "dev": "s0-e1", "packets": 890, "drops": 105, "requeues": 220, "qlen": 5}
TBF = {"kind": "tbf", "dev": "s0-e1", "drops": 7, "overlimits": 31}
NOQUEUE = {"kind": "noqueue", "dev": "s1-e1"}


@pytest.fixture
def run(tmp_path: Path) -> RunLayout:
    made = RunLayout(tmp_path)
    made.captures_folder.mkdir()
    return made


def _frame(number: int, sender: int = 0, size: int = 1000) -> bytes:
    return (
        b"\x03" + bytes(5) + node_address(sender) + b"\x88\xb5" + number.to_bytes(4, "big").ljust(size - 14)
    )


def _capture(
    run: RunLayout, routers: list[tuple[int, bytes]], link: list[tuple[int, bytes]], sender: int = 0
) -> None:
    run.capture(host_identity(sender).name).write_bytes(pcap(routers))
    run.capture(link_identity(LINK).name).write_bytes(pcap(link))


_NOTHING = Counted()


def _span(counted: Counted = _NOTHING, sender: int = 0, **properties: float) -> Span:
    return Span(replace(LINK, **properties), sender, 0, 100 * _NS, counted)  # type: ignore[arg-type]


def _measured(run: RunLayout, span: Span) -> dict[str, tuple[float | None, int]]:
    return {row["property"]: (row["measured"], row["frames"]) for row in calibrations(run, [span])}


def test_every_property_is_measured_and_only_those_that_were_required_have_a_row(run: RunLayout) -> None:
    assert MEASURES.keys() == PROPERTIES.keys()
    assert calibrations(run, [_span()]) == []
    (row,) = calibrations(run, [_span(Counted(frames=10, lost=1), sender=1, loss_percent=9.0)])
    assert row == {
        "sender": 1,
        "receiver": 0,
        "since_ns": 0,
        "until_ns": 100 * _NS,
        "property": "loss_percent",
        "required": 9.0,
        "measured": 10.0,
        "frames": 10,
    }


def test_counters_of_netem_and_of_the_tbf_below_it() -> None:
    (found,) = read_counters(json.dumps([NOQUEUE, NETEM, TBF]), None).items()
    # What TBF's full queue dropped is no loss that was asked for.
    assert found == ("s0-e1", Counted(frames=1000, lost=98, doubled=None, overtook=220, waited=31))
    (alone,) = read_counters(json.dumps([NETEM]), None).values()
    assert alone == Counted(frames=1000, lost=105, doubled=None, overtook=220, waited=0)
    (tbf,) = read_counters(json.dumps([NOQUEUE, TBF]), None).values()
    assert tbf == Counted(waited=31)


def test_counters_of_rules_and_of_a_queue_of_the_same_device() -> None:
    def rule(chain: str, packets: int, *what: dict[str, object], table: str = "cbcb") -> dict[str, object]:
        expressions = [{"counter": {"packets": packets, "bytes": 0}}, *what]
        return {"rule": {"family": "netdev", "table": table, "chain": chain, "expr": expressions}}

    accepted = {"rule": {"table": "cbcb", "chain": "s0-e1", "expr": [{"match": {}}, {"accept": None}]}}
    rules = [
        {"metainfo": {"version": "1.0.6"}},
        accepted,
        rule("s0-e1", 50),
        rule("s0-e1", 10, {"fwd": {"dev": "lo"}}),
        rule("s0-e1", 4, {"mangle": {}}, {"dup": {"addr": "s0-e1"}}),
        rule("s1-e1", 20),
        rule("in", 77, table="of another"),
    ]
    found = read_counters(json.dumps([TBF]), json.dumps({"nftables": rules}))
    assert found == {"s0-e1": Counted(frames=50, lost=10, doubled=4, waited=31), "s1-e1": Counted(frames=20)}


def test_losses_duplicates_and_overtaking_are_shares_of_what_was_sent(run: RunLayout) -> None:
    counted = Counted(frames=200, lost=40, doubled=16, overtook=8)
    found = _measured(run, _span(counted, loss_percent=20, duplicate_percent=9, reorder_percent=4))
    assert found == {
        "loss_percent": (20.0, 200),
        "duplicate_percent": (10.0, 160),
        "reorder_percent": (5.0, 160),
    }


def test_a_link_over_which_nothing_went_has_no_measured_share(run: RunLayout) -> None:
    _capture(run, [], [])
    shaped = replace(LINK, **dict.fromkeys(PROPERTIES, 1.0))  # type: ignore[arg-type]
    found = _measured(run, Span(shaped, 0, 0, _NS, Counted(doubled=None)))
    assert found == dict.fromkeys(PROPERTIES, (None, 0))


def _bucket(rate_mbps: float, frames: int, size: int) -> list[int]:
    """The times at which a full bucket lets frames pass that all come at 10 s."""
    bytes_ns = rate_mbps * 1e6 / 8 / _NS
    return [
        10 * _NS + round(max(0, (number + 1) * size - TBF_BURST_BYTES) / bytes_ns) for number in range(frames)
    ]


@pytest.mark.parametrize("rate_mbps", [1.0, 4.0, 40.0])
def test_the_rate_of_a_full_link_is_that_of_its_bucket_without_the_burst(
    run: RunLayout, rate_mbps: float
) -> None:
    frames = 20 + int(rate_mbps * 1e6 / 8 / 1000 * 0.5)
    link = [(at_ns, _frame(number)) for number, at_ns in enumerate(_bucket(rate_mbps, frames, 1000))]
    _capture(run, [], [*link, (11 * _NS, _frame(1, sender=1))])
    ((measured, by),) = _measured(run, _span(Counted(waited=1), bandwidth_mbps=rate_mbps)).values()
    assert by == frames
    assert measured is not None
    # One frame of 1,000 bytes in a quarter of a second.
    assert rate_mbps - 0.033 < measured <= rate_mbps


def test_ip_counts_for_the_rate_of_a_link(run: RunLayout) -> None:
    """IP frames are in captures of their own."""
    frames = 20 + int(4e6 / 8 / 1000 * 0.5)
    link = [(at_ns, _frame(number)) for number, at_ns in enumerate(_bucket(4, frames, 1000))]
    _capture(run, [], link[::2])
    run.ip_captures_folder.mkdir()
    run.ip_capture("link-0-1").write_bytes(pcap(link[1::2]))
    ((measured, by),) = _measured(run, _span(Counted(waited=1), bandwidth_mbps=4)).values()
    assert by == frames
    assert measured == pytest.approx(4, abs=0.033)


def test_a_link_that_was_never_full_has_no_measured_rate(run: RunLayout) -> None:
    link = [(at_ns, _frame(number)) for number, at_ns in enumerate(_bucket(4, 300, 1000))]
    _capture(run, [], link)
    assert _measured(run, _span(Counted(waited=0), bandwidth_mbps=9)) == {"bandwidth_mbps": (None, 0)}


@pytest.mark.parametrize("sender", [0, 1])
def test_delay_and_jitter_are_those_from_the_switch_to_behind_the_queue(run: RunLayout, sender: int) -> None:
    # 101 frames with delays of 3 to 7 ms, all equally frequent; those of the other end take no time.
    sent = [(number * _MS, _frame(number, sender)) for number in range(1, 102)]
    delays_ms = [3 + 4 * (number * 37 % 101) / 100 for number in range(101)]
    link = [(at + round(ms * _MS), data) for ms, (at, data) in zip(delays_ms, sent, strict=True)]
    other = [(at_ns, _frame(500, 1 - sender)) for at_ns, _ in sent]
    # A frame that was lost, two that the router sent twice, and a copy on the way.
    sent += [(200 * _MS, _frame(800, sender)), *[(at * _MS, _frame(801, sender)) for at in (201, 202)]]
    link += [(300 * _MS, _frame(801, sender)), (400 * _MS, link[7][1])]
    _capture(run, sorted([*sent, *other]), sorted([*link, *other]), sender)
    found = _measured(run, _span(Counted(doubled=None), sender, delay_ms=5, jitter_ms=2))
    assert found == {"delay_ms": (5.0, 101), "jitter_ms": (2.0, 101)}


def test_netem_counts_no_duplicates_and_the_captures_have_them(run: RunLayout) -> None:
    sent = [(number * _MS, _frame(number)) for number in range(1, 41)]
    # A frame that the router sends again is no copy; a frame of unknown origin is none, either.
    again = (50 * _MS, _frame(3))
    link = [*sent, again, *[(at_ns + 1, data) for at_ns, data in sent[20:24]], (60 * _MS, _frame(900))]
    _capture(run, [*sent, again], sorted(link))
    found = _measured(run, _span(Counted(frames=45, doubled=None), duplicate_percent=10))
    assert found == {"duplicate_percent": (round(100 * 4 / 41, 3), 41)}


def test_frames_of_other_spans_do_not_count(run: RunLayout) -> None:
    link = [(at_ns, _frame(number)) for number, at_ns in enumerate(_bucket(4, 300, 1000))]
    _capture(run, [], link)
    early = replace(_span(Counted(waited=1), bandwidth_mbps=4), ended_ns=10 * _NS)
    assert _measured(run, early) == {"bandwidth_mbps": (None, 0)}


ALL = KernelFeatures(netem=True, tbf=True, nft_egress=True)
NO_NETEM = KernelFeatures(netem=False, tbf=True, nft_egress=True)
DUP = replace(NO_NETEM, nft_dup=True)
NOTHING = KernelFeatures(netem=False, tbf=False, nft_egress=False)


def _topology(**properties: float) -> Topology:
    link = replace(LINK, **properties)  # type: ignore[arg-type]
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
    commands = list(tc_commands(_topology(bandwidth_mbps=10, delay_ms=5, loss_percent=1), ALL))
    assert commands == [
        (0, "qdisc replace dev s0-e1 root handle 1: netem limit 1000000 delay 5000us loss 1%"),
        (0, "qdisc replace dev s0-e1 parent 1:1 handle 10: tbf rate 10000000bit burst 16384 latency 400ms"),
        (1, "qdisc replace dev s1-e1 root handle 1: netem limit 1000000 delay 5000us loss 1%"),
        (1, "qdisc replace dev s1-e1 parent 1:1 handle 10: tbf rate 10000000bit burst 16384 latency 400ms"),
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
        assert "numgen random mod 1000000 < 25000 counter fwd to lo" in ruleset
    (_, ruleset), _ = nft_ruleset(_topology(loss_percent=100), NO_NETEM)
    assert "    counter fwd to lo" in ruleset  # nft refuses a draw that always hits


def test_netem_has_all_properties_and_nftables_doubles_frames_without_it() -> None:
    all_of_them = _topology(delay_ms=5, loss_percent=1, jitter_ms=2, reorder_percent=3, duplicate_percent=4)
    (_, command), _ = tc_commands(all_of_them, ALL)
    assert command.endswith("netem limit 1000000 delay 5000us 2000us loss 1% duplicate 4% reorder 3%")
    doubling = _topology(loss_percent=1, duplicate_percent=4)
    assert missing_features(doubling, ALL) == missing_features(doubling, DUP) == []
    (problem,) = missing_features(doubling, NO_NETEM)
    assert "duplicate_percent = 4" in problem
    (_, ruleset), _ = nft_ruleset(doubling, DUP)
    rules = ruleset.splitlines()
    # Lost frames are not doubled.
    assert rules[5].endswith("< 10000 counter fwd to lo")
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
