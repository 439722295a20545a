"""Captures as record batches, without Spark; flows."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import Ether

import captures
from captures.datasource.options import OptionError
from captures.datasource.packet_view import PACKET_COLUMNS
from captures.pcap import PcapError
from tests.support.capture_files import pcap
from tests.support.conversations import FLOWS, write_conversations
from tests.support.run_folder import asked_run
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
        for ends in (number * number % 17 for number in range(200))
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


def test_spark_is_not_imported(tmp_path: Path) -> None:
    write_conversations(tmp_path)
    program = (
        "import captures, sys\n"
        "rows = captures.open(sys.argv[1], 'flows').read_all().num_rows\n"
        "print(rows, 'pyspark' in sys.modules, 'numba' in sys.modules)"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout == "4 False False\n"
