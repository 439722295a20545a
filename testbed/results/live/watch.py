"""Watches a run folder: a thread follows the logs and counts the frames of the captures as they grow."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from captures.frames.decoder import FrameDecoder
from captures.pcap import PcapError
from captures.pcap.following import GrowingFile
from captures.rundir import RunLayout
from captures.rundir.applications import ApplicationsFollower, attention_event
from captures.rundir.capture_list import capture_paths
from captures.rundir.clock import ClockPiece
from captures.rundir.controller import controller_event
from captures.rundir.faults import CommandRecord, FaultRecord
from captures.rundir.files import Follower, RunFolderError, parsed
from router.records.attention import AttentionEvent
from router.wire.header import UNDECODABLE
from testbed.results.live.state import SLOT_NS, LinkCount, LiveState

#: Wall seconds between two reads of the logs and captures.
INTERVAL_S = 1.0
_QUIET_PHASES = ("accounting", "ended", "interrupted")


def growing_captures(run: RunLayout) -> list[Callable[[], Iterator[list[LinkCount]]]]:
    """Returns, of each link of a run, what yields the counts of the frames written since its last call.

    Every frame between routers crosses a link; the captures of host links have it twice more. The files need
    not exist yet; errors are those of `GrowingFile.blocks`.
    """
    columns = ("type", "time_ns", "length")
    return [
        partial(_counts, GrowingFile(Path(path)), FrameDecoder(identity, columns), identity.link)
        for path, identity in capture_paths(run).items()
        if identity.link is not None and identity.kind == "link"
    ]


def _counts(file: GrowingFile, decoder: FrameDecoder, link: int) -> Iterator[list[LinkCount]]:
    for block in file.blocks():
        frames = decoder.decode(block)
        table = pa.table(
            {
                "type": frames.column("type").cast(pa.string()).fill_null(UNDECODABLE),
                "slot": pc.divide(frames.column("time_ns"), SLOT_NS),
                "length": frames.column("length"),
            }
        )
        sums = table.group_by(["type", "slot"]).aggregate([("length", "count"), ("length", "sum")])
        columns = (sums.column(name).to_pylist() for name in ("type", "slot", "length_count", "length_sum"))
        yield [(link, *row) for row in zip(*columns, strict=True)]


class Watcher:
    """Feeds a state from a run folder.

    A context manager: its thread runs inside the block.
    """

    def __init__(self, state: LiveState) -> None:
        self.state = state
        run = RunLayout(state.run_dir)
        self._applications = ApplicationsFollower(run)
        self._controller = Follower(run.controller_log, controller_event)
        self._clock = Follower(run.clock, partial(parsed, ClockPiece))
        self._commands = Follower(run.commands, partial(parsed, CommandRecord))
        self._faults = Follower(run.faults, partial(parsed, FaultRecord))
        self._service: dict[Path, Follower[AttentionEvent]] = {}
        self._captures = growing_captures(run)
        #: What failed is not read again.
        self._failed: set[Callable[[], None]] = set()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="watcher", daemon=True)

    def __enter__(self) -> Self:
        # The first snapshot of a run that is over is also the last: it has all messages.
        self._read_logs()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _follow(self) -> None:
        while not self._over.is_set():
            self._attempt(self._read_captures)
            self._over.wait(INTERVAL_S)
            self._attempt(self._read_logs)

    def _attempt(self, read: Callable[[], None]) -> None:
        if read not in self._failed:
            try:
                read()
            except (RunFolderError, PcapError, OSError) as error:
                self._failed.add(read)
                self.state.set_stream("failed", str(error))

    def _read_captures(self) -> None:
        # Taken before the captures are read: frames written later do not belong to a run that has ended.
        ended = self.state.phase() in _QUIET_PHASES
        for counts in (counts for capture in self._captures for counts in capture()):
            if self._over.is_set():
                return
            self.state.take_counts(counts)
        if not self._failed:
            self.state.set_stream("ended" if ended else "running")

    def _read_logs(self) -> None:
        # Taken before the logs are read: the reads then have every event logged until this time.
        now_ns = time.time_ns()
        self.state.take_pieces(self._clock.read())
        self.state.take_controller(self._controller.read())
        self.state.take_applications(self._applications.read())
        for path in RunLayout(self.state.run_dir).service_folder.glob("*.jsonl"):
            follower = self._service.setdefault(path, Follower(path, attention_event))
            self.state.take_service(follower.read())
        self.state.take_acts((each["at_s"], f"command: {each['command']}") for each in self._commands.read())
        self.state.take_acts(
            (each["at_s"], f"{each['part']} {each.get('node', each.get('link', ''))} {each['what']}")
            for each in self._faults.read()
        )
        self.state.judge_until(now_ns)
