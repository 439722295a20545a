"""Prepares the hosts' own link ends, inside their namespaces: IPv6 off, checksum offload off, up.

Runs as a separate process (`python -m testbed.network.hosts_setup`, a JSON list of `[pid, device]` on
standard input) because it changes its namespace, which the main process must not do.
"""

from __future__ import annotations

import json
import sys

from router.runtime.namespaces import enter_network_namespace
from testbed.network.devices import disable_ipv6, disable_offload, set_up


def main() -> int:
    for pid, device in json.load(sys.stdin):
        enter_network_namespace(pid)
        disable_ipv6("all", "default", "lo", device)
        disable_offload(device)
        set_up(device)
    return 0


if __name__ == "__main__":
    sys.exit(main())
