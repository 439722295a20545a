"""Faults of a run folder whose numbers are known; each changes the builder before the folder is written."""

from __future__ import annotations

import struct

from router.wire.frames import FrameType
from tests.support.run_folder import SEQ, RunBuilder


def without_delivery(run: RunBuilder) -> None:
    run.events = [e for e in run.events if not (e["event"] == "deliver" and e["node"] == 2)]


def twice_delivered(run: RunBuilder) -> None:
    run.deliver(1, 2)


def spurious(run: RunBuilder) -> None:
    run.deliver(3, 1)


def port_counter_off(run: RunBuilder) -> None:
    run.ovs[1][2]["tx_packets"] += 1


def router_counter_off(run: RunBuilder) -> None:
    run.router[2]["frames_received"]["MSG"] -= 1


def socket_drop(run: RunBuilder) -> None:
    run.router[0]["socket_drops"] = 4


def garbled(run: RunBuilder) -> None:
    time_ns, data = run.pcaps["link-0-1"][0]
    run.pcaps["link-0-1"][0] = (time_ns, data[:14] + b"\x09" + data[15:])


def looping(run: RunBuilder) -> None:
    run.send(4, 150, [(0, [1]), (0, [1])])


def forged(run: RunBuilder) -> None:
    """Messages of node 7 that no application has sent cross a link."""
    data = next(data for _, data in run.pcaps["link-0-1"] if data[15] == FrameType.MSG)
    for seq in range(8):
        forged = data[:18] + struct.pack("!IQ", 7, 2**64 - 1 - seq) + data[30:]
        run.pcaps["link-0-1"].append((run.tick(), forged))
        run.ovs[0][1]["tx_packets"] += 1
        run.ovs[1][1]["rx_packets"] += 1


def unrecorded(run: RunBuilder) -> None:
    (lost,) = [e for e in run.events if e["event"] == "send_message" and e["seq"] == SEQ + 3]
    run.events.remove(lost)


def records_lost(run: RunBuilder) -> None:
    run.router[1]["records_lost"] = 3
