"""Compares the captures with the reader of tshark, with the counters of routers and switches, and with the
records of applications.

A reconciliation is `{"expected": n, "found": n, "differences": [{"where", "expected", "found"}, ...]}`: the
total of frames by the other source, Spark's total of the captures, and every number that differs.
"""

from __future__ import annotations

import math
import os
import re
import subprocess
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from captures.frames.columns import FROM_ROUTER, type_of
from captures.rundir.capture_list import CapturedFile
from router.wire.header import HOST_PORT
from topos import Link

Reconciliation = dict[str, Any]
#: Frame type -> the counters of a router of the frames that it received; that it sent.
_RECEIVED = {kind: (f"{kind.lower()}s_received",) for kind in ("RA", "SR", "UR", "SUB", "PUB", "OVERLOAD")}
_RECEIVED |= {"MSG": ("messages_received",), "FLUSH": ("flushes_received",)}
_SENT = {
    kind: (f"{kind.lower()}s_issued", f"{kind.lower()}s_forwarded") for kind in ("RA", "SR", "SUB", "PUB")
}
_SENT_ALONE = {"UR": ("urs_sent",), "FLUSH": ("flushes_sent",)}
#: Reasons for which a router drops a frame that it was to send, and one that came, before it is counted.
SEND_DROPS = ("unencodable", "send_queue_full")
_ARRIVAL_DROPS = (
    *("not_from_controller", "not_from_router", "not_addressed", "malformed", "not_handled", "other_run"),
    *("bad_table", "epoch_ahead", "unknown_neighbour", "ra_old", "sr_old"),
)
_TSHARK_TIMEOUT_S = 600.0
#: Files in one command, whose length the kernel bounds.
_TSHARK_FILES = 1_000
#: What capinfos says of a file that is damaged, cut or no capture.
_OF_A_FILE = (b"capinfos: The file ", b"An error occurred after reading ")
#: Its row for a file that it could read: the name, which may have line breaks, a tab, the number of frames.
_ROW = re.compile(rb"(.*?)\t(\d+)\n", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Total:
    """Frames and bytes of one capture, direction and type; times of the first and last frame.

    Attributes:
        kind: `link`, `host` or `tunnel`, as in the table `captures`.
        first_ns, last_ns: ns since 1970 UTC.
        whole: frames that bring a CBCB frame to its end: a frame of several fragments counts once.
        own: of `whole`, those that the node of a host link issued.
    """

    capture: str
    kind: str
    link: int | None
    node: int | None
    direction: str | None
    from_node: int | None
    to_node: int | None
    type: str
    frames: int
    bytes: int
    undecodable: int
    first_ns: int | None = None
    last_ns: int | None = None
    whole: int = 0
    own: int = 0


class TsharkError(RuntimeError):
    """capinfos cannot be run, or does not end in time: Wireshark reads none of the captures."""


def tshark_counts(files: Mapping[str, Path]) -> dict[str, int]:
    """The number of frames that Wireshark's reader, which is tshark's too, finds in each file, by the keys.

    A file that it does not read to the end has fewer frames, or none, which the reconciliation finds.

    Raises:
        TsharkError: capinfos is missing, fails, or does not end in time.
    """
    names = [str(path) for path in files.values()]
    counts: dict[str, int] = {}
    for first in range(0, len(names), _TSHARK_FILES):
        counts |= _tshark_counts(names[first : first + _TSHARK_FILES])
    return {key: counts.get(str(path), 0) for key, path in files.items()}


def _tshark_counts(names: Sequence[str]) -> dict[str, int]:
    command = ["capinfos", "-T", "-r", "-c", *names]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_TSHARK_TIMEOUT_S, check=False)
    except OSError as error:
        raise TsharkError(f"cannot run capinfos: {error}") from error
    except subprocess.TimeoutExpired as error:
        raise TsharkError(f"capinfos did not read the captures within {_TSHARK_TIMEOUT_S:g} s") from error
    # 1 and 2: a file is damaged, or is no capture; or capinfos has failed and read none.
    of_files = done.stdout or any(words in done.stderr for words in _OF_A_FILE)
    if done.returncode not in (0, 1, 2) or (done.returncode and not of_files):
        words = " ".join(done.stderr.decode(errors="replace").split())
        raise TsharkError(f"capinfos ended with status {done.returncode}: {words}")
    return {os.fsdecode(name): int(frames) for name, frames in _ROW.findall(done.stdout)}


def reconcile_captures(totals: Iterable[Total], captures: Sequence[CapturedFile]) -> Reconciliation:
    """Frames per file: what the process that captured has counted, against the files."""
    result = of_files("in the file", {each.identity.name: each.captured for each in captures}, totals)
    for capture in captures:
        kept = capture.received_by_filter - capture.dropped_by_kernel
        if capture.captured != kept:
            where = f"{capture.identity.name}: received and not dropped"
            result["differences"].append(_difference(where, kept, capture.captured))
    return result


def of_files(what: str, expected: Mapping[str, int], totals: Iterable[Total]) -> Reconciliation:
    """Frames per file: what another source has counted, against the files."""
    found = Counter[str]()
    for total in totals:
        found[f"{total.capture}: {what}"] += total.frames
    named = {f"{name}: {what}": frames for name, frames in expected.items()}
    return _result(sum(expected.values()), found.total(), _differences(named, found))


def reconcile_routers(
    totals: Iterable[Total], counters: Mapping[int, Mapping[str, Any]], *, split: bool = False
) -> Reconciliation:
    """Compares the routers' own counters with the host captures: frames by router, direction and type.

    Frames that the kernel dropped at a router's socket are a difference of their own. Bytes, and the counters
    of the protocol core, are compared as well (`_of_core`); `expected` and `found` leave them out.

    Args:
        split: routers may forward a message in several frames.
    """
    hosts = [total for total in totals if total.kind == "host"]
    found = Counter[str]()
    for total in hosts:
        found[f"router {total.node}: {_way(total)} {total.type}"] += total.frames
    expected = Counter[str]()
    dropped = []
    for node, counter in counters.items():
        for way in ("sent", "received"):
            for kind, frames in counter[f"frames_{way}"].items():
                expected[f"router {node}: {way} {type_of(kind)}"] += frames
        if counter.get("socket_drops", 0):
            dropped.append(_difference(f"router {node}: socket drops", 0, counter["socket_drops"]))
    differences = _differences(expected, found) + dropped
    own: defaultdict[int | None, list[Total]] = defaultdict(list)
    for total in hosts:
        own[total.node].append(total)
    for node, counter in counters.items():
        differences += _of_core(f"router {node}", own[node], counter, split=split)
    return _result(expected.total(), found.total(), differences)


def _way(total: Total) -> str:
    return "sent" if total.direction == FROM_ROUTER else "received"


def _of_core(
    router: str, totals: Sequence[Total], counter: Mapping[str, Any], *, split: bool
) -> list[dict[str, Any]]:
    """Compares bytes, and the counters of the protocol core, of one router with its host link.

    A frame that came and is in no counter was dropped, or a copy of one that came before; one that was sent
    and is in no counter was repeated, and one that was counted and not sent was dropped.
    """
    drops = counter.get("dropped", {})
    dropped = sum(drops.values())
    on_arrival = dropped - sum(drops.get(reason, 0) for reason in SEND_DROPS)
    at_sending = dropped - sum(drops.get(reason, 0) for reason in _ARRIVAL_DROPS)
    captured = Counter[str]()
    for total in totals:
        captured[f"{_way(total)} {total.type}"] += total.whole
        captured[f"own {total.type}"] += total.own if total.direction == FROM_ROUTER else 0
        captured[f"bytes_{_way(total)}"] += total.bytes
    captured["forwarded"] = captured["sent MSG"] - captured["own MSG"]
    copies, repeated = counter.get("control_copies", 0), counter.get("control_repeated", 0)
    #: Captured frames -> the counters that count them; frames that may be in none, and counts without frame.
    compared: dict[str, tuple[tuple[str, ...], float, int]] = {
        "bytes_sent": (("bytes_sent",), 0, 0),
        "bytes_received": (("bytes_received",), 0, 0),
        "forwarded": (("messages_forwarded",), math.inf if split else 0, at_sending),
        **{f"received {kind}": (names, on_arrival + copies, 0) for kind, names in _RECEIVED.items()},
        **{f"sent {kind}": (names, repeated, at_sending) for kind, names in {**_SENT, **_SENT_ALONE}.items()},
        # A publication for homes in several directions is counted once, and sent in a frame for each.
        "sent PUB": (_SENT["PUB"], math.inf, at_sending),
    }
    found = []
    for name, (parts, more, fewer) in compared.items():
        counted = sum(counter.get(part, 0) for part in parts)
        if parts[0] in counter and not counted - fewer <= captured[name] <= counted + more:
            found.append(_difference(f"{router}: {' + '.join(parts)}", counted, captured[name]))
    return found


def of_all_routers(
    summary: Mapping[str, Any], counters: Collection[Mapping[str, Any]], unrecorded: int = 0
) -> list[dict[str, Any]]:
    """Compares the messages from neighbours that were of no use to any router, with what captures give.

    Args:
        summary: keys from captures of all host links of a run in which each frame of a message came once, and
            whose deliveries are recorded.
        counters: of the routers. A frame that one of them dropped is captured, and in none of these counts.
        unrecorded: deliveries of which the records may be missing.
    """
    counted = [counter["messages_unwanted"] for counter in counters if "messages_unwanted" in counter]
    dropped = sum(sum(counter.get("dropped", {}).values()) for counter in counters)
    found = summary["false_positives_from_network"]
    if not counted or sum(counted) <= found <= sum(counted) + dropped + unrecorded:
        return []
    return [_difference("all routers: messages_unwanted", sum(counted), found)]


def reconcile_ovs(
    totals: Iterable[Total],
    counters: Mapping[int, Mapping[int, Mapping[str, int]]],
    links: Collection[Link],
    lossy: Collection[int] = (),
    unknown: Collection[tuple[int, int]] = (),
    cut: Collection[Link] = (),
    *,
    calm: bool = False,
) -> Reconciliation:
    """Compares the switches' counters with the captures: frames by switch port and direction.

    Port i of a node receives the frames of its neighbour on the link, port 65000 those of its router. Links
    with configured loss are left out: capture and far end differ there by design.

    Args:
        lossy: indices of links that got a loss during the run.
        unknown: (node, port) of ports that had other frames too, of which nobody knows how many.
        cut: links of which each end has a capture of its own.
        calm: no link or node went down or changed. Then a frame that a port dropped is a difference, too,
            unless the link has a bandwidth, whose queue may be full.
    """
    left_out = set(unknown)
    for link in links:
        if link.lossy or link.index in lossy:
            left_out |= {(link.u, link.u_port), (link.v, link.v_port)}
    captured = Counter[tuple[str, int | None, bool]]()
    for total in totals:
        if total.kind == "host":
            captured["host", total.node, total.direction == FROM_ROUTER] += total.frames
        elif total.from_node is not None:
            captured[f"{total.kind} {total.link}", total.from_node, True] += total.frames
    found: dict[str, int] = {}
    for link in links:
        for node, port, neighbour in ((link.u, link.u_port, link.v), (link.v, link.v_port, link.u)):
            if (node, port) not in left_out:
                name = f"{'tunnel' if node == link.v and link in cut else 'link'} {link.index}"
                found[f"switch {node} port {port}: received"] = captured[name, neighbour, True]
                found[f"switch {node} port {port}: sent"] = captured[name, node, True]
    for node in counters:
        if (node, HOST_PORT) not in left_out:
            found[f"switch {node} port {HOST_PORT}: received"] = captured["host", node, True]
            found[f"switch {node} port {HOST_PORT}: sent"] = captured["host", node, False]
    expected = {}
    for node, ports in counters.items():
        for port, counter in ports.items():
            for way, field in (("received", "rx_packets"), ("sent", "tx_packets")):
                if (node, port) not in left_out:
                    expected[f"switch {node} port {port}: {way}"] = counter[field]
    differences = _differences(expected, found)
    for link in links if calm else ():
        for node, port in ((link.u, link.u_port), (link.v, link.v_port)):
            dropped = counters.get(node, {}).get(port, {}).get("tx_dropped", 0)
            if dropped and link.bandwidth_mbps is None and (node, port) not in left_out:
                differences.append(_difference(f"switch {node} port {port}: dropped", 0, dropped))
    return _result(sum(expected.values()), sum(found.values()), differences)


def reconcile_tunnels(
    totals: Iterable[Total],
    cut: Iterable[Link],
    disturbed: Set[Link],
    ip: Mapping[tuple[int, int, str], int],
    unknown: Set[tuple[int, int]],
) -> Reconciliation:
    """Frames over links between machines, by direction: captured where they were sent, against received.

    Args:
        disturbed: links that may lose frames: only more frames than were sent are a difference.
        ip: IPv4 frames, of `captures.accounting.inputs.IpFrames.at_ports`.
        unknown: (node, port) of ports whose captures of IPv4 lost frames: their links are left out.
    """
    captured = Counter[tuple[str, int | None, int | None]]()
    for total in totals:
        captured[total.kind, total.link, total.from_node] += total.frames
    sent, received, arrived = Counter[str](), Counter[str](), Counter[str]()
    for link in cut:
        ends = [("link", (link.u, link.u_port)), ("tunnel", (link.v, link.v_port))]
        if not unknown.isdisjoint(port for _, port in ends):
            continue
        for (near, sender), (far, receiver) in (ends, ends[::-1]):
            name = f"tunnel of link {link.u}-{link.v} from {sender[0]} to {receiver[0]}"
            sent[name] = captured[near, link.index, sender[0]] + ip[*sender, "tx_packets"]
            received[name] = captured[far, link.index, sender[0]] + ip[*receiver, "rx_packets"]
            arrived[name] = max(sent[name], received[name]) if link in disturbed else received[name]
    return _result(sent.total(), received.total(), _differences(sent, arrived))


def reconcile_applications(
    counted: Mapping[str, int], recorded: Mapping[str, int], unrecorded: Sequence[tuple[str, int]]
) -> Reconciliation:
    """Compares the records of applications with the routers' own counters, and with the captured messages.

    Args:
        counted, recorded: of `captures.accounting.recorded.recorded_and_counted`.
        unrecorded: captured messages that no router recorded, the first few: ISSUER/SEQ, captured frames.
    """
    differences = [
        _difference(f"message {message}: captured frames of a message that no router recorded", 0, frames)
        for message, frames in unrecorded
    ]
    differences += _differences(counted, recorded)
    return _result(sum(counted.values()), sum(recorded.values()), differences)


def _differences(expected: Mapping[str, int], found: Mapping[str, int]) -> list[dict[str, Any]]:
    """The numbers that differ. A name that is missing on one side counts as 0 there."""
    names = sorted({*expected, *found})
    pairs = [(name, expected.get(name, 0), found.get(name, 0)) for name in names]
    return [_difference(*pair) for pair in pairs if pair[1] != pair[2]]


def _difference(where: str, expected: int, found: int) -> dict[str, Any]:
    return {"where": where, "expected": expected, "found": found}


def _result(expected: int, found: int, differences: list[dict[str, Any]]) -> Reconciliation:
    return {"expected": expected, "found": found, "differences": differences}
