"""Port counters of the run's switches, read over OpenFlow."""

from __future__ import annotations

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from captures.rundir.counters import PortCounters, SwitchCounters
from testbed.errors import RunError
from testbed.network.commands import run
from testbed.network.names import Names

_PORT = re.compile(
    r"port +(?P<port>\w+): rx pkts=(?P<rx_packets>\d+), bytes=(?P<rx_bytes>\d+), drop=(?P<rx_dropped>\d+|\?)"
    r"[^\n]*\n\s*tx pkts=(?P<tx_packets>\d+), bytes=(?P<tx_bytes>\d+), drop=(?P<tx_dropped>\d+|\?)"
)
_FIELDS = ("rx_packets", "tx_packets", "rx_bytes", "tx_bytes", "rx_dropped", "tx_dropped")
#: Parallel queries, which wait for Open vSwitch most of their time.
_PARALLEL = 4


def parse_ports(text: str) -> dict[int, PortCounters]:
    """Parses the output of `ovs-ofctl --no-names dump-ports`: port number -> counters, without the local
    port."""
    return {
        int(found["port"]): {name: 0 if found[name] == "?" else int(found[name]) for name in _FIELDS}
        for found in _PORT.finditer(text)
        if found["port"].isdigit()
    }


def read_counters(names: Names, nodes: Sequence[int]) -> SwitchCounters:
    """Returns the counters of every port of every switch.

    Raises:
        RunError: a switch does not answer, or answers without ports.
    """

    def read(node: int) -> dict[int, PortCounters]:
        bridge = names.switch(node)
        ports = parse_ports(run(["ovs-ofctl", "-O", "OpenFlow13", "--no-names", "dump-ports", bridge]))
        if not ports:
            raise RunError(f"switch {bridge} reports no ports")
        return ports

    with ThreadPoolExecutor(_PARALLEL) as pool:
        return dict(zip(nodes, pool.map(read, nodes), strict=True))


def difference(start: SwitchCounters, end: SwitchCounters) -> SwitchCounters:
    """Returns the differences of the counters between two readings."""
    return {
        node: {
            port: {name: count - start[node][port][name] for name, count in counters.items()}
            for port, counters in ports.items()
        }
        for node, ports in end.items()
    }
