"""Counters of the ports and rules of the run's switches, as Open vSwitch reports them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from captures.rundir.counters import PortCounters, SwitchCounters, SwitchDrops
from router.wire.addresses import CONTROLLER_SOURCE, HOST_PORT
from testbed.support.errors import RunError

_COUNT = r"(?:\d+|\?)"
#: A port of `dpctl/show -s` whose device is that of a switch port (`testbed.support.names.port_device`).
_PORT = re.compile(
    r"port \d+: s(?P<node>\d+)-(?:e(?P<port>\d+)|h)\b[^\n]*\n"
    rf"\s*RX packets:(?P<rx_packets>{_COUNT}) errors:{_COUNT} dropped:(?P<rx_dropped>{_COUNT})[^\n]*\n"
    rf"\s*TX packets:(?P<tx_packets>{_COUNT}) errors:{_COUNT} dropped:(?P<tx_dropped>{_COUNT})[^\n]*\n"
    r"[^\n]*\n"
    rf"\s*RX bytes:(?P<rx_bytes>{_COUNT})[^\n]*?TX bytes:(?P<tx_bytes>{_COUNT})"
)
#: A rule of table 0 of `bridge/dump-flows` that drops; the lines of other tables begin with their number.
_DROP = re.compile(
    r"^duration=\S+ n_packets=(?P<frames>\d+), [^\n]*?priority=\d+(?P<match>\S*),actions=drop$", re.M
)
#: Upcalls that failed, of `dpctl/show`.
_LOST = re.compile(r"^\s*lookups: [^\n]*\blost:(\d+)", re.M)
_OF_CONTROLLER = f"dl_src={CONTROLLER_SOURCE.hex(':')}"
_FIELDS = ("rx_packets", "tx_packets", "rx_bytes", "tx_bytes", "rx_dropped", "tx_dropped")


def parse_ports(texts: Iterable[str]) -> SwitchCounters:
    """Parses the outputs of `ovs-appctl dpctl/show -s`: node -> port number -> counters."""
    switches: SwitchCounters = {}
    for text in texts:
        for found in _PORT.finditer(text):
            port = HOST_PORT if found["port"] is None else int(found["port"])
            counters: PortCounters = {name: 0 if found[name] == "?" else int(found[name]) for name in _FIELDS}
            switches.setdefault(int(found["node"]), {})[port] = counters
    return switches


def parse_lost(text: str) -> int:
    """Parses the frames that a datapath could not hand over to ovs-vswitchd, from `ovs-appctl dpctl/show`.

    The userspace datapath hands none over: it counts 0.

    Raises:
        RunError: the text has no such count.
    """
    if (found := _LOST.search(text)) is None:
        raise RunError(f"ovs-appctl dpctl/show: {text[:200]!r}; expected a line `lookups: ... lost:NUMBER`")
    return int(found[1])


def parse_drops(text: str) -> SwitchDrops:
    """Parses the output of `ovs-appctl bridge/dump-flows` of one switch (`testbed.controller.rules`)."""
    drops = SwitchDrops(controller_source=0, no_rule=0)
    for found in _DROP.finditer(text):
        of_controller = _OF_CONTROLLER in found["match"]
        drops["controller_source" if of_controller else "no_rule"] += int(found["frames"])
    return drops


def difference(start: SwitchCounters, end: SwitchCounters) -> SwitchCounters:
    """Returns the differences of the counters between two readings."""
    return {
        node: {
            port: {name: count - start[node][port][name] for name, count in counters.items()}
            for port, counters in ports.items()
        }
        for node, ports in end.items()
    }
