"""Compares the captures with tshark, with the counters of routers and switches, and with the records of
applications.

A reconciliation is `{"expected": n, "found": n, "differences": [{"where", "expected", "found"}, ...]}`: the
total of frames by the other source, Spark's total of the captures, and every number that differs.
"""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from captures.frames.columns import FROM_ROUTER, type_of
from captures.rundir.capture_list import CapturedFile
from router.wire.addresses import HOST_PORT
from topos.model import Link

Reconciliation = dict[str, Any]
#: Files that one mergecap reads: it opens all of them at once.
_FILES_AT_ONCE = 200
_TSHARK_TIMEOUT_S = 600.0


@dataclass(frozen=True, slots=True)
class Total:
    """Frames and bytes of one capture, direction and type; times of the first and last frame.

    Attributes:
        kind: `link` or `host`, as in the table `captures`.
        first_ns, last_ns: ns since 1970 UTC.
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


class TsharkError(RuntimeError):
    """tshark or mergecap cannot be run, or does not end in time: it reads none of the captures."""


def tshark_counts(files: Mapping[str, Path]) -> dict[str, int]:
    """The number of frames that tshark reads in each file, by the keys of `files`.

    One tshark reads many files: mergecap concatenates them, each as an interface of its own. Files that
    mergecap cannot merge, such as a truncated one, are read one by one.

    Raises:
        TsharkError: the tools are missing or do not end in time.
    """
    names = sorted(files)
    chunks = [names[start : start + _FILES_AT_ONCE] for start in range(0, len(names), _FILES_AT_ONCE)]
    with ThreadPoolExecutor(max_workers=2) as pool:
        counted = list(pool.map(lambda chunk: _count_together([files[name] for name in chunk]), chunks))
        alone = [
            name for chunk, counts in zip(chunks, counted, strict=True) if counts is None for name in chunk
        ]
        found = dict(zip(alone, pool.map(lambda name: _count_alone(files[name]), alone), strict=True))
    for chunk, counts in zip(chunks, counted, strict=True):
        if counts is not None:
            found.update(zip(chunk, counts, strict=True))
    return found


def _count_together(paths: Sequence[Path]) -> list[int] | None:
    """The number of frames of each file, from one tshark; None: mergecap cannot merge the files."""
    try:
        with subprocess.Popen(
            ["mergecap", "-a", "-I", "none", "-w", "-", *map(str, paths)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as merge:
            output = _tshark("-", "frame.interface_id", stdin=merge.stdout)
        if merge.returncode != 0:
            return None
    except OSError as error:
        raise TsharkError(f"cannot run mergecap: {error}") from error
    counts = Counter(int(line) for line in output)
    return [counts[position] for position in range(len(paths))]


def _count_alone(path: Path) -> int:
    return len(_tshark(str(path), "frame.number"))


def _tshark(source: str, field: str, stdin: Any = subprocess.DEVNULL) -> list[bytes]:
    command = ["tshark", "-n", "-r", source, "-T", "fields", "-e", field]
    try:
        done = subprocess.run(
            command, stdin=stdin, capture_output=True, timeout=_TSHARK_TIMEOUT_S, check=False
        )
    except OSError as error:
        raise TsharkError(f"cannot run tshark: {error}") from error
    except subprocess.TimeoutExpired as error:
        raise TsharkError(f"tshark did not read the captures within {_TSHARK_TIMEOUT_S:g} s") from error
    if done.returncode < 0:
        raise TsharkError(f"tshark was ended by signal {-done.returncode} while it read {source}")
    # A capture that it does not read to the end has fewer frames, which the reconciliation finds.
    return done.stdout.split()


def reconcile_tshark(
    totals: Iterable[Total], tshark: Mapping[str, int], captures: Iterable[CapturedFile]
) -> Reconciliation:
    """Frames per file: tshark, and the captures' own count, against the captures."""
    found = Counter[str]()
    for total in totals:
        found[total.capture] += total.frames
    differences = _differences({f"{name}: tshark": n for name, n in tshark.items()}, found, _before_colon)
    own = {f"{capture.identity.name}: capture": capture.captured for capture in captures}
    differences += _differences(own, found, _before_colon)
    return _result(sum(tshark.values()), found.total(), differences)


def reconcile_routers(totals: Iterable[Total], counters: Mapping[int, Mapping[str, Any]]) -> Reconciliation:
    """Compares the routers' own counters with the host captures: frames by router, direction and type.

    Frames that the kernel dropped at a router's socket are a difference of their own.
    """
    found = Counter[str]()
    for total in totals:
        if total.kind == "host":
            way = "sent" if total.direction == FROM_ROUTER else "received"
            found[f"router {total.node}: {way} {total.type}"] += total.frames
    expected = Counter[str]()
    dropped = []
    for node, counter in counters.items():
        for way in ("sent", "received"):
            for kind, frames in counter[f"frames_{way}"].items():
                expected[f"router {node}: {way} {type_of(kind)}"] += frames
        if counter.get("socket_drops", 0):
            dropped.append(_difference(f"router {node}: socket drops", 0, counter["socket_drops"]))
    return _result(expected.total(), found.total(), _differences(expected, found) + dropped)


def reconcile_ovs(
    totals: Iterable[Total],
    counters: Mapping[int, Mapping[int, Mapping[str, int]]],
    links: Collection[Link],
    lossy: Collection[int] = (),
    unknown: Collection[tuple[int, int]] = (),
) -> Reconciliation:
    """Compares the switches' counters with the captures: frames by switch port and direction.

    Port i of a node receives the frames of its neighbour on the link, port 65000 those of its router. Links
    with configured loss are left out: capture and far end differ there by design.

    Args:
        lossy: indices of links that got a loss during the run.
        unknown: (node, port) of ports that had other frames too, of which nobody knows how many.
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
            captured[f"link {total.link}", total.from_node, True] += total.frames
    found: dict[str, int] = {}
    for link in links:
        for node, port, neighbour in ((link.u, link.u_port, link.v), (link.v, link.v_port, link.u)):
            if (node, port) not in left_out:
                name = f"link {link.index}"
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
    return _result(sum(expected.values()), sum(found.values()), _differences(expected, found))


def reconcile_applications(
    sent: Mapping[int, int], counters: Mapping[int, Mapping[str, Any]], unrecorded: Sequence[tuple[str, int]]
) -> Reconciliation:
    """Compares the messages that routers recorded as sent by applications with the routers' own counters, and
    with the captured messages.

    Args:
        sent: node -> recorded messages.
        counters: node -> counters of its router.
        unrecorded: captured messages that no router recorded, the first few: ISSUER/SEQ, captured frames.
    """
    expected = {
        f"router {node}: messages sent": counter["messages_sent"]
        for node, counter in counters.items()
        if "messages_sent" in counter
    }
    found = {f"router {node}: messages sent": number for node, number in sent.items()}
    differences = [
        _difference(f"message {message}: captured frames of a message that no router recorded", 0, frames)
        for message, frames in unrecorded
    ]
    differences += _differences(expected, {where: found.get(where, 0) for where in expected})
    return _result(sum(expected.values()), sum(found.values()), differences)


def _before_colon(where: str) -> str:
    return where.partition(":")[0]


def _differences(
    expected: Mapping[str, int], found: Mapping[str, int], key: Any = None
) -> list[dict[str, Any]]:
    """The numbers that differ. A name that is missing on one side counts as 0 there.

    Args:
        key: maps a name of `expected` to the name in `found` that it is compared with; names of `found` that
            no expected name maps to are compared with 0.
    """
    named = {where: key(where) if key else where for where in expected}
    pairs = [(where, expected[where], found.get(name, 0)) for where, name in named.items()]
    compared = set(named.values())
    pairs += [(name, 0, found[name]) for name in found if name not in compared]
    return [_difference(*numbers) for numbers in sorted(pairs) if numbers[1] != numbers[2]]


def _difference(where: str, expected: int, found: int) -> dict[str, Any]:
    return {"where": where, "expected": expected, "found": found}


def _result(expected: int, found: int, differences: list[dict[str, Any]]) -> Reconciliation:
    return {"expected": expected, "found": found, "differences": differences}
