"""`cbcb packets`: captures as Parquet and CSV."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from testbed.cli.main import main
from tests.support.cases import cases_beside
from tests.support.conversations import FLOWS, write_conversations
from tests.support.polling import poll

_PACKETS = (sys.executable, "-m", "testbed.cli.main", "packets")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    write_conversations(tmp_path / "in")
    return tmp_path


def test_chosen_packets_are_printed_as_csv(folder: Path, printed: Callable[..., str]) -> None:
    chosen = ("--columns", "offset,ip_src,vlan", "--where", "tcp_flags & 2 = 2 or eth_type = 2054")
    shown = printed("packets", folder / "in", *chosen)
    assert shown == "offset,ip_src,vlan\n40,10.0.0.9,\n110,10.0.0.1,\n340,,\n"


def test_standard_output_has_the_table_if_standard_error_is_a_terminal(folder: Path) -> None:
    terminal, errors = os.openpty()
    command = [*_PACKETS, "in/a.pcap", "--columns", "offset"]
    environment = {**os.environ, "TERM": "xterm"}
    done = subprocess.run(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=errors, check=True
    )
    os.close(terminal)
    os.close(errors)
    assert done.stdout.startswith(b"offset\n40\n")


def test_flows_become_a_file_of_parquet(folder: Path) -> None:
    target = folder / "out" / "flows.parquet"
    assert main(["packets", str(folder / "in"), "--view", "flows", "--to", str(target)]) == 0
    assert [tuple(row.values()) for row in pq.read_table(target).to_pylist()] == FLOWS
    assert list(target.parent.iterdir()) == [target]


def test_all_columns_but_the_bytes_are_written(folder: Path) -> None:
    target = folder / "out" / "packets.csv"
    assert main(["packets", str(folder / "in" / "a.pcap"), "--to", str(target)]) == 0
    heading, *rows = target.read_text().splitlines()
    assert heading.startswith("file,offset,packet,") and heading.endswith(",tcp_flags,undecodable")
    assert len(rows) == 5


@pytest.mark.parametrize(("arguments", "message"), cases_beside(__file__)["wrong_input"])
def test_wrong_input_is_one_line_and_leaves_no_file(
    folder: Path,
    arguments: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)
    Path("bad.pcap").write_bytes(b"no capture")
    assert main(["packets", "--to", "out/a.parquet", *arguments]) == 2
    shown = capsys.readouterr()
    assert shown.out == "" and message in shown.err and "Traceback" not in shown.err
    assert list(Path("out").iterdir()) == []


@pytest.mark.parametrize(("view", "number"), [("packets", "length"), ("flows", "bytes")])
def test_an_interrupt_leaves_no_file(folder: Path, view: str, number: str) -> None:
    # A condition that takes longer than any test.
    endless = f"{number} > (select sum(a.range * b.range) % 7 from range(10000000) a, range(10000000) b)"
    command = [*_PACKETS, "in", "--view", view, "--where", endless, "--to", "out/a.csv"]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as running:
        poll(lambda: list((folder / "out").glob(".cbcb-packets-*/*")) or None, 60, "the unfinished table")
        running.send_signal(signal.SIGINT)
        assert running.stderr is not None
        shown = running.stderr.read()
    assert (running.returncode, shown) == (130, "cbcb: interrupted\n")
    assert list((folder / "out").iterdir()) == []
