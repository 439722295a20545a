"""Link properties in the kernel: bandwidth by TBF, the others by netem; loss and duplicates also by nftables.

All functions are pure: they return the commands that a topology needs. Shaping applies to frames that leave a
switch port, at both ends of a link; host links are never shaped.
"""

from __future__ import annotations

from collections.abc import Iterator

from testbed.machine.probes import KernelFeatures
from testbed.support.names import port_device
from topos import PROPERTIES, TBF_BURST_BYTES, TBF_LATENCY_S, Link, Topology

#: TBF of a link whose bandwidth was taken away.
_UNLIMITED_MBPS, _UNLIMITED_BURST_BYTES = 10_000.0, 100_000_000
#: netem: frames that may be under way. The default limit, 1,000, drops frames of a long fast link without
#: a declared loss.
_NETEM_LIMIT_FRAMES = 1_000_000
#: nftables draws a number below this; probabilities have this resolution.
_STEPS = 1_000_000
#: Mark of frames that were doubled.
_COPY = "0xcbcb"


def ends(link: Link) -> tuple[tuple[int, str], tuple[int, str]]:
    """Returns node and device of both ends."""
    return (link.u, port_device(link.u, link.u_port)), (link.v, port_device(link.v, link.v_port))


def tc_commands(topology: Topology, kernel: KernelFeatures) -> Iterator[tuple[int, str]]:
    """Returns lines for `tc -batch`, each with the node in whose switch's namespace it is to run."""
    for link in topology.links:
        yield from changed_tc(link, link, kernel)


def changed_tc(before: Link, after: Link, kernel: KernelFeatures) -> Iterator[tuple[int, str]]:
    """Returns lines as `tc_commands` that give a link other properties than it has.

    A queueing discipline that is there is changed, and never removed, since the frames in its queue would be
    lost: of properties that are taken away, it stays with values that have no effect.
    """
    for node, device in ends(after):
        parent = "root handle 1:"
        if kernel.netem and any(getattr(link, name) for link in (before, after) for name in PROPERTIES):
            yield node, f"qdisc replace dev {device} {parent} netem{_netem(after)}"
            parent = "parent 1:1 handle 10:"
        if before.bandwidth_mbps or after.bandwidth_mbps:
            rate_mbps = after.bandwidth_mbps or _UNLIMITED_MBPS
            burst = TBF_BURST_BYTES if after.bandwidth_mbps else _UNLIMITED_BURST_BYTES
            yield (
                node,
                f"qdisc replace dev {device} {parent} tbf rate {rate_mbps * 1e6:.0f}bit "
                f"burst {burst} latency {TBF_LATENCY_S * 1000:.0f}ms",
            )


def _netem(link: Link) -> str:
    properties = f" limit {_NETEM_LIMIT_FRAMES}"
    if link.delay_ms:
        properties += f" delay {link.delay_ms * 1000:.0f}us"
        properties += f" {link.jitter_ms * 1000:.0f}us" if link.jitter_ms else ""
    properties += f" loss {link.loss_percent:g}%" if link.loss_percent else ""
    properties += f" duplicate {link.duplicate_percent:g}%" if link.duplicate_percent else ""
    return properties + (f" reorder {link.reorder_percent:g}%" if link.reorder_percent else "")


def nft_ruleset(topology: Topology, kernel: KernelFeatures) -> Iterator[tuple[int, str]]:
    """Returns tables for `nft -f -` that drop and double frames where netem cannot, each with its node.

    A copy passes the chain too, and is known by its mark: it is neither lost nor doubled.
    """
    if kernel.netem:
        return
    for link in topology.links:
        for node, device in ends(link):
            rules = [
                f"    {_drawn(percent)}counter {verdict}\n"
                for percent, verdict in (
                    # Nobody takes it there. `drop` gives ovs-vswitchd an error, at which it drops, uncounted,
                    # what it would send together with the frame.
                    (link.loss_percent, "fwd to lo"),
                    (link.duplicate_percent, f"meta mark set {_COPY} dup to {device}"),
                )
                if percent
            ]
            if rules:
                yield (
                    node,
                    "table netdev cbcb {\n"
                    f"  chain {device} {{\n"
                    f"    type filter hook egress device {device} priority 0;\n"
                    f"    meta mark {_COPY} accept\n    counter\n{''.join(rules)}"
                    "  }\n"
                    "}",
                )


def _drawn(percent: float) -> str:
    share = round(percent / 100 * _STEPS)
    return "" if share == _STEPS else f"numgen random mod {_STEPS} < {share} "


def changed_nft(after: Link, kernel: KernelFeatures) -> Iterator[tuple[int, str]]:
    """Returns rules as `nft_ruleset` that give a link another loss; they hold whatever its loss was."""
    if kernel.netem or not kernel.nft_egress:
        return
    for node, device in ends(after):
        hook = f"{{ type filter hook egress device {device} priority 0; }}"
        yield (
            node,
            "add table netdev cbcb\n"
            f"add chain netdev cbcb {device} {hook}\ndelete chain netdev cbcb {device}",
        )
    yield from nft_ruleset(Topology("link", (), (after,)), kernel)
