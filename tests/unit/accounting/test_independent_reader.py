"""Tables of runs, as the accounting writes them and as a reader finds them that knows the documents alone."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from captures.accounting.account import account_directly
from captures.datasource.views import FRAMES
from captures.frames import CaptureIdentity
from captures.frames.columns import COLUMNS
from captures.frames.parts import FilePart
from captures.tables import TABLES, store
from router.predicates import Message
from router.predicates.parser import parse_predicate
from router.wire.frames import (
    AddressedMessage,
    Body,
    Frame,
    FrameType,
    Publication,
    PublicationFlags,
    Subscription,
    SubscriptionFlags,
)
from router.wire.header import CONTROLLER_DESTINATION, CONTROLLER_SOURCE, ROUTER_DESTINATION, node_address
from testbed.experiments.config.load import find_experiment, load_experiment
from tests.support.capture_files import made_view, pcap
from tests.support.independent import tables
from tests.support.independent.frames import Capture, packets
from tests.support.paths import ROOT
from tests.support.run_folder import RunBuilder, asked_run, faulty_run, good_run
from tests.support.simulated import judged_run
from tests.support.whole_frames import encode
from tests.vectors.wire_vectors import FRAGMENTED, WHOLE

_SMALL = {
    "duration_s": "120",
    "topology.nodes": "8",
    "workload.first_message_s": "0",
    "workload.messages_per_minute": "60",
    "protocol.sr_policy": "periodic",
    "protocol.sr_period_s": "30",
}
#: What a run has of its own -> experiment, overrides, and a column of frames with a value that shows it.
_RUNS: dict[str, tuple[str, dict[str, str], tuple[str, object]]] = {
    "epochs and receipts": ("recovery", {"protocol.reliable_control": "true"}, ("type", "RECEIPT")),
    "destinations": ("ring5", {"routing.scheme": "drp"}, ("destinations", [3])),
    "copies": ("ring5", {"routing.scheme": "unicast"}, ("destinations", [3])),
    "publications": (
        "diallo-small",
        {
            "duration_s": "60",
            "workload.attention.publications": "300",
            "workload.attention.subscriptions": "40",
        },
        ("type", "PUB"),
    ),
    "encoded frames": ("default", {**_SMALL, "privacy.mode": "bloom"}, ("encoded", True)),
    "signatures and fragments": (
        "default",
        {**_SMALL, "security.mode": "signed", "workload.filters_min": "60", "workload.filters_max": "60"},
        ("fragment", "completing"),
    ),
    "requests": ("default", _SMALL, ("type", "UR")),
}
#: Digits to which numbers agree, of which the documents give no order of operations.
_DIGITS = 9


def _rows(rows: Iterable[dict[str, Any]], columns: Iterable[str]) -> Counter[str]:
    names = sorted(columns)
    return Counter(repr([_plain(row.get(name)) for name in names]) for row in rows)


def _plain(value: object) -> object:
    if isinstance(value, float):
        return round(value, _DIGITS)
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    return [_plain(each) for each in value] if isinstance(value, (list, tuple)) else value


def _simulated(folder: Path, kind: str) -> Path:
    """A run with the oracle's answers, not accounted for."""
    name, overrides, _ = _RUNS[kind]
    experiment = load_experiment(find_experiment(name), overrides)
    return judged_run(experiment, folder).path


def _agreed(run: Path) -> tuple[tables.Run, set[str], str]:
    """The run as the reader finds it, tables with rows, and the verdict; the accounting writes the same."""
    summary = account_directly(run, lambda _: None)
    read = tables.Run(run)
    with_rows = set()
    for table, recomputed in tables.TABLES.items():
        path = store.folder(run, table)
        written = pa.table({}) if store.is_empty(run, table) else pq.read_table(path)
        columns = TABLES[table].schema.names
        found, expected = _rows(recomputed(read), columns), _rows(written.to_pylist(), columns)
        assert (table, list(found - expected)[:3]) == (table, list(expected - found)[:3])
        if found:
            with_rows.add(table)
    return read, with_rows, summary["verdict"]


@pytest.mark.parametrize("kind", _RUNS)
def test_a_reader_of_the_documents_finds_the_same_tables(tmp_path: Path, kind: str) -> None:
    column, value = _RUNS[kind][2]
    read, with_rows, verdict = _agreed(_simulated(tmp_path, kind))
    assert verdict == "holds"
    assert any(row.get(column) == value for row in read.frames)
    of_service = {"publications", "publication_deliveries"}
    of_messages = {"advertised", "messages", "arrivals", "deliveries", "processed", "trees"}
    assert with_rows == tables.TABLES.keys() - (of_messages if kind == "publications" else of_service)
    # `incarnation` has one meaning: the starts of routers in HELLOs are those in sequence numbers.
    starts = {(row["issuer"], row["incarnation"]) for row in read.frames if row.get("incarnation")}
    numbers = {
        (row["issuer"], row["seq"] >> 32) for row in read.frames if row["type"] in ("MSG", "RA", "PUB")
    }
    assert numbers and numbers <= starts


@pytest.mark.parametrize("made", [good_run, asked_run, faulty_run, RunBuilder])
def test_the_reader_finds_the_tables_of_runs_made_by_hand(
    tmp_path: Path, made: Callable[[], RunBuilder]
) -> None:
    _agreed(made().write(tmp_path / "run"))


#: Bodies that the golden vectors lack: numbers of more than 63 bits, and destinations as a map.
_EXTREMES: dict[FrameType, Body] = {
    FrameType.SUB: Subscription(
        *(2, 9, 5, 1_500_000, 2**64 - 1, parse_predicate("x = 1")),
        *(SubscriptionFlags.REFRESHED, ((3, 2**63 - 1), (4, 2**63))),
    ),
    FrameType.PUB: Publication(
        *(3, 2**64 - 1, 2**64 - 1, Message({"x": 1}), PublicationFlags.PENDING, (4, 9))
    ),
    FrameType.MSG: AddressedMessage(tuple(range(3, 90)), Message({"x": 1})),
}
_PAYLOADS = [
    *(vector.payload for vector in WHOLE),
    *(payload for vector in FRAGMENTED for payload in vector.payloads),
    *(encode(Frame(kind, 5, 2**64 - 1, 2**32 - 1, 255, body)) for kind, body in _EXTREMES.items()),
]


@pytest.mark.parametrize(
    "identity",
    [CaptureIdentity("link-3-5", "link", link=7, u=3, v=5), CaptureIdentity("host-3", "host", node=3)],
    ids=lambda identity: str(identity.name),
)
def test_the_golden_vectors_have_the_columns_of_the_documents(
    tmp_path: Path, identity: CaptureIdentity
) -> None:
    path = tmp_path / "a.pcap"
    ends = (
        *(ROUTER_DESTINATION + node_address(node) for node in (3, 5)),
        CONTROLLER_DESTINATION + node_address(3),
        *((ROUTER_DESTINATION + CONTROLLER_SOURCE,) if identity.kind == "host" else ()),
    )
    frames = [end + b"\x88\xb5" + payload for end in ends for payload in _PAYLOADS]
    path.write_bytes(pcap(list(enumerate(frames))))
    names = [name for name in COLUMNS if name != "time"]
    view = made_view(FRAMES, names, {str(path): identity})
    fields = {name: getattr(identity, name) for name in ("name", "kind", "u", "v", "node", "link")}
    found = [row for batch in view.read(FilePart(str(path))) for row in batch.to_pylist()]
    assert _rows(found, names) == _rows((row for row, _ in Capture(**fields, path=path).rows()), names)
    assert len(found) == len(frames)


def _damaged(frame: bytes) -> Iterator[tuple[str, bytes]]:
    """Reason and bytes of malformed frames, made of a MSG frame (docs/reference/wire-format.md)."""

    def header(reason: str, at: int, data: bytes) -> tuple[str, bytes]:
        return reason, frame[: 14 + at] + data + frame[14 + at + len(data) :]

    def body(reason: str, data: bytes) -> tuple[str, bytes]:
        size = len(data)
        fields = size.to_bytes(4, "big") + frame[38:42] + size.to_bytes(2, "big") + bytes(2)
        return reason, frame[:34] + fields + data

    yield header("bad_version", 0, b"\x09")
    yield header("bad_type", 1, b"\x63")
    yield header("bad_reserved", 30, b"\x00\x01")
    yield header("too_large", 20, (2**24 + 1).to_bytes(4, "big"))
    yield header("bad_fragment", 24, b"\x00\x05")
    yield header("bad_length", 20, b"\x00\x00\x00\x01")
    yield header("bad_length", 20, b"\x00\x00\x00\x01\x00\x00\x00\x02")
    yield "truncated", frame[:-1]
    yield "truncated", frame[:30]
    yield "bad_source", frame[:8] + b"\xee" * 4 + frame[12:]
    yield body("bad_tlv", b"\x01\x00\x00")
    yield body("bad_tlv", b"\x01\x00\x00\x00\x09a")
    yield body("bad_tlv", bytes(5))
    yield body("bad_value", b"\x01\x00\x00\x00\x04\x01a\x09\x01")


def test_the_reader_and_the_accounting_refuse_the_same_frames(tmp_path: Path) -> None:
    run = _simulated(tmp_path, "destinations")
    refused = list[str]()
    for pattern in ("link-*", "host-*"):
        path, time_ns, frame = next(
            (path, time_ns, frame)
            for path in sorted((run / "pcap").glob(pattern))
            for time_ns, _, frame in packets(path)
            if frame[15] == 1
        )
        made = [
            (reason, data)
            for reason, data in _damaged(frame)
            if reason != "bad_source" or path.name.startswith("link-")
        ]
        with path.open("ab") as file:
            file.write(
                pcap([(time_ns, data) for _, data in made], nano=b"\x4d\x3c" in path.read_bytes()[:4])[24:]
            )
        refused += [reason for reason, _ in made]
    read, _, _ = _agreed(run)
    found = [row["undecodable"] for row in read.frames if row.get("undecodable")]
    assert Counter(found) == Counter(refused)
    source = (ROOT / "tests" / "support" / "independent" / "frames.py").read_text()
    assert {*re.findall(r'"(bad_\w+|truncated|too_large)"', source)} == {*refused}
