"""Growing captures as one stream of pcapng, and `cbcb capture`, which writes it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from captures.pcap import FILE_HEADER, record_header
from captures.pcap.following import followed
from captures.pcap.reader import PcapReader, Record
from captures.rundir import RunLayout
from testbed.emulation.control import running
from testbed.support.run_state import ProcessId, RunState
from tests.support.cases import cases_beside
from tests.support.polling import TIMEOUT, poll
from tests.support.run_folder import good_run
from tests.support.wire_tshark import needs_tshark

S = 10**9
#: Time, and the frame: of the link r0-r1, and of r1-r2, whose times lie between and before.
FRAMES = [(3 * S, b"a" * 60), (5 * S + 7, b"b" * 61)], [(2 * S, b"c" * 62), (4 * S, b"d" * 63)]


def _record(time_ns: int, frame: bytes) -> bytes:
    return record_header(time_ns, len(frame)) + frame


def _read(capture: Path) -> list[Record]:
    return list(PcapReader(capture, growing=True).records())


def _stream(folder: Path) -> bytes:
    """The pcapng of two captures: half of a record is written when the first look comes."""
    files = {name: folder / f"{name}.pcap" for name in ("link-0-1", "link-1-2", "not-yet")}
    for file, frames in zip(files.values(), FRAMES, strict=False):
        file.write_bytes(FILE_HEADER + _record(*frames[0]) + _record(*frames[1])[:20])
    looks: list[bytes] = [b""]
    for part in followed(files, lambda: len(looks) == 3):
        looks[-1] += part
        if not part:
            looks.append(b"")
            for file, frames in zip(files.values(), FRAMES, strict=False):
                file.write_bytes(FILE_HEADER + _record(*frames[0]) + _record(*frames[1]))
    assert [len(look) > 0 for look in looks] == [True, True, False, False]
    return b"".join(looks)


@needs_tshark
def test_tshark_reads_packets_in_order_of_time_with_their_stamps_and_interfaces(tmp_path: Path) -> None:
    fields = ["-T", "fields", "-e", "frame.interface_name", "-e", "frame.time_epoch", "-e", "frame.len"]
    done = subprocess.run(["tshark", "-r", "-", *fields], input=_stream(tmp_path), capture_output=True)
    rows = [line.split("\t") for line in done.stdout.decode().splitlines()]
    assert [(name, float(time), int(size)) for name, time, size in rows] == [
        *(("link-1-2", 2, 62), ("link-0-1", 3, 60), ("link-1-2", 4, 63), ("link-0-1", 5.000000007, 61))
    ]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunLayout:
    """A run of this checkout whose captures have ended."""
    folder = good_run().write(tmp_path / "run")
    state = RunState("own", ProcessId.of(os.getpid()), str(folder))
    monkeypatch.setattr(running, "live_runs", lambda: [state])
    return RunLayout(folder)


@pytest.mark.parametrize(("arguments", "error"), cases_beside(__file__)["refused"])
def test_what_cannot_be_captured_is_refused(
    run: RunLayout,
    refused: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    error: str,
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    capture = run.capture("link-0-1")
    before = capture.read_bytes()
    assert error in refused("capture", *(capture if each == "CAPTURE" else each for each in arguments))
    assert capture.read_bytes() == before


_OF_A_RUN = """
import os, resource, sys
from testbed.cli.main import main
from testbed.emulation.control import running
from testbed.support.run_state import ProcessId, RunState
running.live_runs = lambda: [RunState("own", ProcessId.of(os.getppid()), sys.argv[1])]
sys.exit(main(["capture", "0", "1"]))
"""


@pytest.mark.parametrize("taken", [0, 4, 10_000])
def test_a_reader_that_goes_away_ends_a_quiet_capture(run: RunLayout, taken: int) -> None:
    run.captures.unlink()  # the run goes on
    command = [sys.executable, "-c", _OF_A_RUN, str(run.path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        os.read(process.stdout.fileno(), taken)
        process.stdout.close()
        assert (process.wait(TIMEOUT), process.stderr.read()) == (0, b"")


def test_a_capture_has_more_links_than_a_process_may_have_files_open(run: RunLayout) -> None:
    limit = "resource.setrlimit(resource.RLIMIT_NOFILE, (6, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))"
    all_links = '"--all", "--node", "0", "--node", "1", "--node", "2"'
    script = _OF_A_RUN.replace("sys.exit", f"{limit}\nsys.exit").replace('"0", "1"', all_links)
    output = run.path / "all.pcapng"
    output.write_bytes(subprocess.check_output([sys.executable, "-c", script, str(run.path)]))
    files = run.captures_folder.glob("*.pcap")
    assert sorted(_read(output)) == sorted(record for file in files for record in _read(file))


def test_ctrl_c_leaves_a_whole_file(run: RunLayout, tmp_path: Path) -> None:
    output = tmp_path / "new.pcapng"
    run.captures.unlink()
    script = _OF_A_RUN.replace('"1"]', f'"1", "--write", "{output}"]')
    with subprocess.Popen(
        [sys.executable, "-c", script, str(run.path)], stderr=subprocess.DEVNULL
    ) as process:
        expected = _read(run.capture("link-0-1"))

        def written() -> bool | None:
            return True if output.exists() and output.stat().st_size and _read(output) == expected else None

        poll(written, TIMEOUT, "the frames are written")
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT) == 130
    assert _read(output) == expected
