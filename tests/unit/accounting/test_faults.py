"""The verdict on a run folder whose numbers are known, with one fault at a time."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from captures.accounting.direct import Direct
from captures.pcap.formats import PcapError
from router.wire.frames import FrameType
from tests.support.run_folder import NODES, SEQ, RunBuilder, good_run


def _summary(run: Path) -> dict[str, Any]:
    with Direct(run) as direct:
        return direct.summary()


def _without_delivery(run: RunBuilder) -> None:
    run.events = [e for e in run.events if not (e["event"] == "deliver" and e["node"] == 2)]


def _twice_delivered(run: RunBuilder) -> None:
    run.deliver(1, 2)


def _spurious(run: RunBuilder) -> None:
    run.deliver(3, 1)


def _port_counter_off(run: RunBuilder) -> None:
    run.ovs[1][2]["tx_packets"] += 1


def _router_counter_off(run: RunBuilder) -> None:
    run.router[2]["frames_received"]["MSG"] -= 1


def _socket_drop(run: RunBuilder) -> None:
    run.router[0]["socket_drops"] = 4


def _garbled(run: RunBuilder) -> None:
    time_ns, data = run.pcaps["link-0-1"][0]
    run.pcaps["link-0-1"][0] = (time_ns, data[:14] + b"\x09" + data[15:])


def _looping(run: RunBuilder) -> None:
    run.send(4, 150, [(0, [1]), (0, [1])])


def _forged(run: RunBuilder) -> None:
    """Messages of node 7 that no application has sent cross a link."""
    data = next(data for _, data in run.pcaps["link-0-1"] if data[15] == FrameType.MSG)
    for seq in range(8):
        forged = data[:18] + struct.pack("!IQ", 7, 2**64 - 1 - seq) + data[30:]
        run.pcaps["link-0-1"].append((run.tick(), forged))
        run.ovs[0][1]["tx_packets"] += 1
        run.ovs[1][1]["rx_packets"] += 1


def _unrecorded(run: RunBuilder) -> None:
    (lost,) = [e for e in run.events if e["event"] == "send_message" and e["seq"] == SEQ + 3]
    run.events.remove(lost)


def _records_lost(run: RunBuilder) -> None:
    run.router[1]["records_lost"] = 3


@pytest.mark.parametrize(
    ("fault", "reasons"),
    [
        (
            _without_delivery,
            [
                "1 expected deliveries missed after convergence",
                "records of applications and counters or captures differ in 1 numbers; "
                "first: router 2: messages delivered: expected 1, found 0",
            ],
        ),
        (_twice_delivered, ["1 deliveries made more than once"]),
        (_spurious, ["1 deliveries that nobody asked for"]),
        (
            _port_counter_off,
            ["ovs and the captures differ in 1 numbers; first: switch 1 port 2: sent: expected 4, found 3"],
        ),
        (
            _router_counter_off,
            [
                "routers and the captures differ in 1 numbers; "
                "first: router 2: received MSG: expected 1, found 2"
            ],
        ),
        (
            _socket_drop,
            [
                "4 frames dropped at the routers' sockets",
                "routers and the captures differ in 1 numbers; "
                "first: router 0: socket drops: expected 0, found 4",
            ],
        ),
        (_garbled, ["1 captured frames that do not decode"]),
        (
            _forged,
            [
                "8 captured messages that no router recorded as sent by an application",
                "records of applications and counters or captures differ in 5 numbers; first: "
                "message 7/18446744073709551608: captured frames of a message that no router recorded: "
                "expected 0, found 1",
            ],
        ),
        (
            _unrecorded,
            [
                "1 captured messages that no router recorded as sent by an application",
                "records of applications and counters or captures differ in 2 numbers; first: "
                "message 0/9223372041149743107: captured frames of a message that no router recorded: "
                "expected 0, found 3",
            ],
        ),
        (
            _records_lost,
            ["3 records of applications that routers could not write: evidence is missing"],
        ),
        (_looping, ["1 MSG frames that crossed a link twice in one direction"]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_one_fault_is_found(tmp_path: Path, fault: Callable[[RunBuilder], None], reasons: list[str]) -> None:
    run = good_run()
    fault(run)
    summary = _summary(run.write(tmp_path / "run"))
    assert summary["verdict_reasons"] == reasons
    assert summary["verdict"] == "fails"


def test_a_run_whose_captures_dropped_frames_is_invalid(tmp_path: Path) -> None:
    run = good_run()
    run.drops["link-0-1"] = 3
    summary = _summary(run.write(tmp_path / "run"))
    assert summary["verdict"] == "invalid"
    assert summary["verdict_reasons"][:2] == [
        "the machine was too slow",
        "captures: 3 frames dropped before they were read",
    ]


def test_cut_capture_is_found(tmp_path: Path) -> None:
    run = good_run().write(tmp_path / "run")
    path = run / "pcap" / "link-1-2.pcap"
    path.write_bytes(path.read_bytes()[:-1])
    summary = _summary(run)
    assert summary["frames_captured"] == 31
    assert summary["capture_defects"][0].startswith("link-1-2: the file ends inside a record")
    assert summary["verdict_reasons"] == [
        f"capture cut short: {summary['capture_defects'][0]}",
        "capture files and their own counters differ in 1 numbers; "
        "first: link-1-2: in the file: expected 4, found 3",
        # Port 2 of switch 1 sent it, port 1 of switch 2 received it.
        "ovs and the captures differ in 2 numbers; first: switch 1 port 2: sent: expected 3, found 2",
    ]


def test_a_delivery_to_a_broken_connection_is_neither_made_nor_missed(tmp_path: Path) -> None:
    run = good_run()
    for event in run.events:
        if event["event"] == "deliver" and event["node"] == 2:
            event["event"] = "lose"
    summary = _summary(run.write(tmp_path / "run"))
    assert summary["verdict_reasons"] == []
    keys = ("deliveries_expected", "deliveries_made", "deliveries_lost", "false_negatives", "false_positives")
    assert [summary[key] for key in keys] == [2, 1, 1, 0, 2]


def test_message_missed_before_convergence_decides_nothing(tmp_path: Path) -> None:
    run = RunBuilder()
    for node in NODES:
        run.set_up(node)
    run.set_predicate(1)
    run.set_predicate(2)
    run.send(1, 50, [], expected=True)
    run.advertise(1, [(1, [0, 2])], seq=1)
    summary = _summary(run.write(tmp_path / "run"))
    assert (summary["false_negatives"], summary["false_negatives_after_convergence"]) == (2, 0)
    (reason,) = summary["verdict_reasons"]
    assert reason.startswith("none of 2 expected deliveries is decided")


def test_a_file_that_is_no_capture_is_the_error_of_the_reader(tmp_path: Path) -> None:
    run = good_run().write(tmp_path / "run")
    path = run / "pcap" / "link-1-2.pcap"
    path.write_bytes(b"no capture" * 10)
    with pytest.raises(PcapError, match=r"link-1-2\.pcap: "):
        _summary(run)
