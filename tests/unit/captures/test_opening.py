"""Captures as record batches, without Spark: views, columns, bounds, modes and the other options; flows."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import Ether

import captures
from captures.datasource.formats import CbcbSource, PcapSource
from captures.datasource.opening import view_of
from captures.datasource.options import OptionError, read_options
from captures.datasource.views import PCAP_VIEWS, MalformedPacketError, View
from captures.frames.columns import PACKET_COLUMNS
from captures.frames.parts import FilePart
from captures.pcap import PcapError
from tests.support.capture_files import enhanced, interface, pcap, section
from tests.support.cases import cases_beside
from tests.support.conversations import FLOWS, write_conversations
from tests.support.run_folder import START_NS, asked_run, good_run
from tests.support.wire_tshark import needs_tshark

#: A line of `tshark -z conv`: two ends, and frames in both directions together.
_CONVERSATION = re.compile(r"^(\S+) +<-> (\S+)(?: +\d+ \d+ \w+){2} +(\d+) \d+ \w+", re.MULTILINE)


def test_packets_of_all_files_come_in_order(tmp_path: Path) -> None:
    write_conversations(tmp_path)
    reader = captures.open(tmp_path)
    assert isinstance(reader, pa.RecordBatchReader)
    assert reader.schema.names == list(PACKET_COLUMNS)
    assert reader.read_all().column("time_ns").to_pylist() == list(range(8))


def test_columns_and_options_are_those_of_the_format(tmp_path: Path) -> None:
    write_conversations(tmp_path)
    reader = captures.open(tmp_path / "a.pcap", columns=["src_port", "packet"], fromNs=1, untilNs=4)
    assert reader.read_all().to_pylist() == [
        {"src_port": port, "packet": number} for port, number in ((80, 2), (4000, 3), (5, 4))
    ]


def test_frames_of_a_run_know_their_captures(tmp_path: Path) -> None:
    run = asked_run().write(tmp_path / "run")
    rows = captures.open(run, "frames", ["capture", "type", "undecodable"]).read_all().to_pylist()
    assert {row["capture"] for row in rows} == set(asked_run().pcaps)
    assert {row["undecodable"] for row in rows} == {None}


def test_duckdb_reads_the_batches(tmp_path: Path) -> None:
    write_conversations(tmp_path)
    with duckdb.connect() as database:
        database.register("packets", captures.open(tmp_path))
        found = database.sql("select ip_protocol, count(*) from packets group by all order by all").fetchall()
    assert found == [(1, 1), (6, 4), (17, 2), (None, 1)]


def test_flows_of_two_files(tmp_path: Path) -> None:
    files = write_conversations(tmp_path)
    assert [tuple(row.values()) for row in captures.open(files, "flows").read_all().to_pylist()] == FLOWS


@needs_tshark
def test_flows_are_the_conversations_of_tshark(tmp_path: Path) -> None:
    packets = [
        Ether() / IP(src=f"10.0.0.{ends % 5}", dst=f"10.0.1.{ends % 3}") / kind(sport=9000 + ends, dport=9001)
        for ends in (number * number % 17 for number in range(60))
        for kind in (TCP, UDP)
    ]
    turned = [Ether() / IP(src=p[IP].dst, dst=p[IP].src) / p[IP].payload for p in packets[::3]]
    for packet in turned:
        packet.payload.payload.sport, packet.payload.payload.dport = 9001, packet.payload.payload.sport
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap([(number, bytes(packet)) for number, packet in enumerate([*packets, *turned])]))
    found: dict[int, Counter[frozenset[str]]] = {6: Counter(), 17: Counter()}
    for flow in captures.open(path, "flows").read_all().to_pylist():
        ends = {f"{flow[f'ip_{end}']}:{flow[f'{end}_port']}" for end in ("src", "dst")}
        found[flow["ip_protocol"]][frozenset(ends)] += flow["packets"]
    for protocol, name in ((6, "tcp"), (17, "udp")):
        command = ["tshark", "-n", "-q", "-r", str(path), "-z", f"conv,{name}"]
        shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        assert found[protocol] == Counter(
            {frozenset(ends): int(frames) for *ends, frames in _CONVERSATION.findall(shown)}
        )
        assert len(found[protocol]) > 5


def test_wrong_input_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.pcap").write_bytes(b"no capture")
    for view in ("packets", "flows", "frames"):
        with pytest.raises(PcapError, match=r"a\.pcap: starts with"):
            captures.open(tmp_path, view).read_all()
        for columns, error in ((["x"], "no column 'x'"), ([], "no column ''"), (["time_ns"] * 2, "twice")):
            names = ["first_ns" if name == "time_ns" and view == "flows" else name for name in columns]
            with pytest.raises(OptionError, match=error):
                captures.open(tmp_path, view, names)
    with pytest.raises(OptionError, match=r"unknown option fromns2"):
        captures.open(tmp_path, fromNs2=5)
    with pytest.raises(FileNotFoundError, match=r"b\.pcap"):
        captures.open(tmp_path / "b.pcap")


def test_small_captures_are_read_without_spark_and_numba(tmp_path: Path) -> None:
    write_conversations(tmp_path)
    program = (
        "import captures, sys\n"
        "print(*(captures.open(sys.argv[1], view).read_all().num_rows for view in ('flows', 'frames')))\n"
        "print('pyspark' in sys.modules, 'numba' in sys.modules)"
    )
    printed = subprocess.check_output([sys.executable, "-c", program, str(tmp_path)], text=True)
    assert printed == "4 8\nFalse False\n"


def _in_time(row: dict[str, Any]) -> bool:
    return bool(_FIRST_NS <= row["time_ns"] < _UNTIL_NS)


_FIRST_NS, _UNTIL_NS = START_NS + 3_000_000, START_NS + 110_000_000
_BOUNDS: dict[str, tuple[dict[str, Any], Callable[[dict[str, Any]], bool]]] = {
    "time": ({"fromNs": _FIRST_NS, "untilNs": _UNTIL_NS}, _in_time),
    "types": ({"types": "MSG, RA"}, lambda row: row["type"] in ("MSG", "RA")),
    "links": ({"links": "0, 1"}, lambda row: row["link"] is not None),
    "all": (
        {"fromNs": _FIRST_NS, "untilNs": _UNTIL_NS, "types": "RA", "links": "0"},
        lambda row: _in_time(row) and row["type"] == "RA" and row["link"] == 0,
    ),
}


@pytest.mark.parametrize("columns", [None, ["seq", "issuer"], ["type", "time_ns"]])
@pytest.mark.parametrize("bounds", _BOUNDS)
def test_frames_of_a_time_types_and_links(tmp_path: Path, bounds: str, columns: list[str] | None) -> None:
    run = good_run().write(tmp_path / "run")
    options, inside = _BOUNDS[bounds]
    everything = captures.open(run, "frames").read_all().to_pylist()
    expected = [row for row in everything if inside(row)]
    assert 0 < len(expected) < len(everything)
    found = captures.open(run, "frames", columns, **options).read_all()
    assert found.to_pylist() == [{name: row[name] for name in found.schema.names} for row in expected]
    counts = Counter[tuple[str, str, str]]()
    for row in captures.open(run, "traffic", **options).read_all().to_pylist():
        counts[row["capture"], row["type"], "frames"] += row["frames"]
        counts[row["capture"], row["type"], "bytes"] += row["bytes"]
    wanted = Counter[tuple[str, str, str]]()
    for row in expected:
        wanted[row["capture"], row["type"], "frames"] += 1
        wanted[row["capture"], row["type"], "bytes"] += row["length"]
    assert counts == wanted


def test_health_of_files_and_those_that_are_no_captures(tmp_path: Path) -> None:
    content = pcap([(number, bytes(60)) for number in range(1, 201)])
    (tmp_path / "cut.pcap").write_bytes(content[:-1])
    (tmp_path / "text.pcap").write_text("no capture at all, but a text of some length")
    with pytest.warns(UserWarning, match="ends inside a record"):
        assert captures.open(tmp_path, ignoreCorruptFiles="true").read_all().num_rows == 199
    rows = captures.open(tmp_path, "files", ["packets", "first_ns", "defect", "error"]).read_all()
    cut, text = rows.to_pylist()
    defect = f"the file ends inside a record, which starts at byte {len(content) - 76}"
    assert cut == {"packets": 199, "first_ns": 1, "defect": defect, "error": None}
    assert (text["packets"], "expected the magic number" in text["error"]) == (0, True)


GOOD, SHORT = bytes(60), bytes(9)


def _times(path: Path, **options: str) -> list[int]:
    found: list[int] = captures.open(path, columns=["time_ns"], **options).read_all()["time_ns"].to_pylist()
    return found


def test_modes_say_what_becomes_of_packets_that_do_not_decode(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap([(1, GOOD), (2, SHORT), (3, GOOD)]))
    assert _times(path) == [1, 2, 3]
    assert _times(path, mode="dropmalformed") == [1, 3]
    with pytest.raises(MalformedPacketError, match=r"a\.pcap: packet 2: truncated$"):
        _times(path, mode="FAILFAST", ignoreCorruptFiles="true")
    # Packets of other links are not malformed.
    path.write_bytes(pcap([(1, GOOD)], link_type=113))
    assert _times(path, mode="FAILFAST") == [1]


def test_modes_say_what_becomes_of_a_file_that_ends_in_a_record(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap([(1, GOOD), (2, GOOD)])[:-1])
    with pytest.warns(UserWarning, match="ends inside a record"):
        assert _times(path) == [1]
    with pytest.raises(MalformedPacketError, match="ends inside a record"):
        _times(path, mode="FAILFAST")


@pytest.mark.parametrize(("given", "message"), cases_beside(__file__)["malformed_options"])
def test_malformed_options_are_errors(given: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        view_of("pcap", {"path": "x", **given})


def test_files_are_chosen_by_the_time_of_their_change(tmp_path: Path) -> None:
    for name, second in (("a", 1_000), ("b", 2_000), ("c", 3_000)):
        (tmp_path / f"{name}.pcap").write_bytes(pcap([]))
        os.utime(tmp_path / f"{name}.pcap", (second, second))

    def chosen(**options: str) -> list[str]:
        entries = read_options("pcap", {"path": str(tmp_path), **options}, PCAP_VIEWS).files()
        return [Path(entry.path).stem for entry in entries]

    assert chosen(modifiedAfter="1970-01-01T00:16:40") == ["b", "c"]
    between = {"modifiedAfter": "1970-01-01T01:16:39+01:00", "modifiedBefore": "1970-01-01T00:50:00"}
    assert chosen(**between) == ["a", "b"]


def test_missing_paths_are_no_error_where_they_are_ignored(tmp_path: Path) -> None:
    (tmp_path / "a.pcap").write_bytes(pcap([]))
    paths = json.dumps([str(tmp_path / "a.pcap"), str(tmp_path / "no.pcap"), str(tmp_path / "*.cap")])
    with pytest.raises(FileNotFoundError, match=r"no\.pcap: no such file or directory"):
        read_options("pcap", {"paths": paths}, PCAP_VIEWS).files()
    options = read_options("pcap", {"paths": paths, "ignoreMissingFiles": "true"}, PCAP_VIEWS)
    assert [entry.path for entry in options.files()] == [str(tmp_path / "a.pcap")]
    gone = View(options).changed(columns=("time_ns",))
    assert list(gone.read(FilePart(str(tmp_path / "gone.pcap")))) == []


def test_times_are_rounded_down_to_microseconds_and_may_be_missing(tmp_path: Path) -> None:
    path = tmp_path / "a.pcapng"
    path.write_bytes(section() + interface(tsresol=9) + enhanced(1_999, GOOD) + enhanced(2**63, GOOD))
    times = captures.open(path, columns=["time"]).read_all()["time"].to_pylist()
    assert [time and time.microsecond for time in times] == [1, None]


def _schema(**columns: Any) -> StructType:
    return StructType([StructField(name, kind()) for name, kind in columns.items()])


def test_a_schema_chooses_columns(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap([(0, GOOD)]))
    reader = PcapSource({"path": str(path)}).reader(_schema(captured=IntegerType, time_ns=LongType))
    (part,) = reader.partitions()
    (batch,) = reader.read(part)
    assert batch.to_pylist() == [{"captured": 60, "time_ns": 0}]
    source = CbcbSource({"path": str(path)})
    no_column = "schema: no column 'data' in view frames; expected some of capture, "
    with pytest.raises(OptionError, match=no_column):
        source.reader(_schema(data=StringType))
    with pytest.raises(OptionError, match="cbcb: schema: time_ns is string; expected bigint"):
        source.reader(_schema(time_ns=StringType))
