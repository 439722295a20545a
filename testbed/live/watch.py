"""Watches a run folder: one thread follows the logs, another runs the stream on Spark.

Spark takes some seconds to start and then reads the captures from their beginning. This process and its
children run at the lowest priority, below the emulation.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil

from captures.datasource.live_counts import SLOT_NS, LinkCount, stream_counts
from captures.rundir.applications import ApplicationsFollower
from captures.rundir.attention import AttentionEvent, attention_event
from captures.rundir.clock import clock_piece, read_clock
from captures.rundir.commands import CommandRecord
from captures.rundir.controller import controller_event
from captures.rundir.follow import Follower
from captures.rundir.layout import RunLayout
from captures.rundir.manifest import read_manifest
from captures.rundir.records import check
from captures.rundir.topology import read_topology
from captures.spark.session import spark_session
from captures.tables import store
from testbed.config.hop_limit import hop_limit_of
from testbed.config.load import load_experiment
from testbed.live.deliveries import Deliveries
from testbed.live.state import LiveState
from testbed.oracle.connectivity import NetworkGraph

#: Wall seconds between two reads of the logs, and between two micro-batches.
INTERVAL_S = 1.0
_NICE = 19
#: The table with the frames of each link by time bin.
_TABLE = "link_bins"
_QUIET_PHASES = ("accounting", "ended", "interrupted")


def open_state(run_dir: Path) -> LiveState:
    """Returns the state of a run of which only the inputs have been read.

    Raises:
        InputError: the folder has no usable experiment.
        RunFolderError: the folder has no usable topology or manifest.
    """
    run = RunLayout(run_dir)
    experiment = load_experiment(run.experiment)
    topology = read_topology(run)
    return LiveState(
        run_dir,
        {
            "name": experiment.name,
            "duration_s": experiment.duration_s,
            "time_scale": experiment.time_scale,
            "routers": len(experiment.topology.nodes),
            "links": len(experiment.topology.links),
        },
        topology,
        read_manifest(run),
        Deliveries(
            experiment.oracle.in_flight_window_s,
            NetworkGraph.of(topology),
            hop_limit=hop_limit_of(experiment),
        ),
    )


def accounted_counts(run_dir: Path) -> list[LinkCount] | None:
    """Returns the frames of a run by the time bins of its accounting; None: it has not been accounted for.

    Raises:
        RunFolderError: the clock of the run is missing or malformed, or the table is damaged.
    """
    if not RunLayout(run_dir).summary.exists() or store.lacking(run_dir, (_TABLE,)) is not None:
        return None
    clock = read_clock(RunLayout(run_dir))
    table = store.read(run_dir, _TABLE, ("link", "type", "bin_s", "frames", "bytes"))
    rows = [] if table is None else table.drop_null().to_pylist()
    return [
        LinkCount(
            row["link"], row["type"], clock.wall_ns(row["bin_s"]) // SLOT_NS, row["frames"], row["bytes"]
        )
        for row in rows
    ]


class Watcher:
    """Feeds a state from a run folder.

    A context manager: its threads run inside the block.

    Args:
        state: the state to feed.
        master: Spark's master URL, for a run without tables; None: no stream, only the logs.
        busy: whether the emulation runs already, so that Spark starts at the lowest priority.
    """

    def __init__(self, state: LiveState, master: str | None = "local[1]", busy: bool = True) -> None:
        self.state = state
        self._master = master
        if busy:
            give_way()
        run = RunLayout(state.run_dir)
        self._applications = ApplicationsFollower(run)
        self._controller = Follower(run.controller_log, controller_event)
        self._clock = Follower(run.clock, clock_piece)
        self._commands = Follower(run.commands, partial(check, CommandRecord))
        self._service: dict[Path, Follower[AttentionEvent]] = {}
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._follow_logs, name="logs", daemon=True)]
        if (counts := accounted_counts(state.run_dir)) is not None:
            # The frames of a run that has been accounted for need no session of Spark.
            state.take_counts(counts)
            state.set_stream("ended")
        elif master is None:
            state.set_stream("off")
        else:
            self._threads.append(threading.Thread(target=self._stream, name="stream", daemon=True))

    def __enter__(self) -> Self:
        # The first snapshot of a run that is over is also the last: it has all messages.
        self._read_logs()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _follow_logs(self) -> None:
        while not self._over.wait(INTERVAL_S):
            self._read_logs()

    def _read_logs(self) -> None:
        # Taken before the logs are read: the reads then have every event logged until this time.
        now_ns = time.time_ns()
        self.state.take_pieces(self._clock.read())
        self.state.take_controller(self._controller.read())
        self.state.take_applications(self._applications.read())
        for path in RunLayout(self.state.run_dir).service_folder.glob("*.jsonl"):
            follower = self._service.setdefault(path, Follower(path, attention_event))
            self.state.take_service(follower.read())
        self.state.take_commands(self._commands.read())
        self.state.judge_until(now_ns)

    def _stream(self) -> None:
        assert self._master is not None
        state, run_dir = self.state, self.state.run_dir
        folder = Path(tempfile.mkdtemp(prefix="cbcb-live-"))
        try:
            with spark_session(self._master, RunLayout(run_dir).live_spark_log) as spark:
                batches = 0

                def take(counts: Sequence[LinkCount]) -> None:
                    nonlocal batches
                    batches += 1
                    state.take_counts(counts)
                    if batches == 1:
                        give_way()
                    state.set_stream("running", batches=batches)

                query = stream_counts(spark, run_dir, take, folder, INTERVAL_S)
                try:
                    self._until_quiet(query)
                finally:
                    query.stop()
            state.set_stream("ended")
        except Exception as error:  # Py4J and Spark raise many types; the page continues without the stream
            if not self._over.is_set():
                state.set_stream("failed", str(error).partition("\n")[0][:300])
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _until_quiet(self, query: Any) -> None:
        """Returns when the emulation has ended and all of its captures have been read, or on a request to
        end."""
        while not self._over.wait(INTERVAL_S):
            if query.exception() is not None:
                raise query.exception()
            # Read before the last batch: frames written after it do not belong to the run.
            ended = self.state.phase() in _QUIET_PHASES
            if ended:
                query.processAllAvailable()
                return


def give_way() -> None:
    """Gives every thread of this process and of its descendants the lowest priority."""
    this = psutil.Process()
    for process in [this, *this.children(recursive=True)]:
        # A process or a thread may end meanwhile.
        with suppress(psutil.Error):
            for thread in process.threads():
                with suppress(OSError):
                    os.setpriority(os.PRIO_PROCESS, thread.id, _NICE)
