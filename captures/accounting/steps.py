"""The inputs and values of a run that the texts of SQL read, and the order in which they are run."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from captures.accounting import contradictions, run_tables, schemes
from captures.accounting.engines import CAPTURED, Engine
from captures.accounting.inputs import Inputs, capture_files
from captures.accounting.log_tables import OPENING, as_table, controller_table, routing_rows
from captures.accounting.texts import STEP_S, WINDOW_S, double, in_order, reads, texts, written_out
from captures.rundir.measures import Accounting, StageTime
from captures.rundir.routing_tables import ROUTING_TABLES
from captures.tables import store
from router.clock import NS

#: Steps of the moving windows.
_STEPS = round(WINDOW_S / STEP_S)
#: Input -> how it is made.
INPUTS: Mapping[str, Callable[[Inputs], pa.Table]] = {
    "run": run_tables.run,
    "nodes": run_tables.nodes,
    "links": run_tables.links,
    "shortest_paths": lambda inputs: run_tables.shortest_paths(inputs.topology.links, inputs.senders),
    "trees": lambda inputs: run_tables.read_trees(inputs.captures, inputs.run.path, inputs.senders),
    "routing_tables": lambda inputs: routing_rows(ROUTING_TABLES.read(inputs.run)),
    "controller": lambda inputs: controller_table(inputs.run, inputs.clock),
    "oracle": lambda inputs: inputs.oracle,
    "applications": lambda inputs: inputs.log.events(inputs.clock),
    "subscriptions": run_tables.subscription_table,
    "service": run_tables.service_table,
    "discarded": lambda inputs: inputs.log.discarded,
    "sent": lambda inputs: inputs.log.sent,
    "delivered": lambda inputs: inputs.log.deliveries,
    "lost": lambda inputs: inputs.log.lost,
    "declared": lambda inputs: inputs.log.declared,
    "opening": lambda inputs: as_table(
        [(node, *times) for node, times in sorted(inputs.opening.items())], OPENING
    ),
    "unwritten": contradictions.unwritten_times,
    "files": capture_files,
    "held": schemes.held,
    "numbers": lambda inputs: pa.table(
        {"number": pa.array(range(max(inputs.bins, _STEPS + 1) + 1), pa.int64())}
    ),
}
#: A router that is not overloaded has sent an RA, which need not wait, in this time; wall ns.
_SENT_NS = 100_000_000


def values(inputs: Inputs) -> dict[str, str]:
    """The values of a run that texts name, as literals.

    `bin_s`: width of a time bin, experiment seconds.
    `bins`: number of the bins from second 0 to the last event.
    `start_ns`, `last_ns`: times of the start and of the last event, ns since 1970 UTC.
    `wait_ns`: the longest time from the confirmation of a change to the first frame of its RA, wall ns.
    `resolution_ns`: records of the run agree within this, ns.
    `named`: contradictions of a kind that are named.
    `all_hosts`: whether the host links of all nodes were captured.
    `unbroken`: whether, beside, no frame can have escaped the captures.
    `private`: whether the run has a private network.
    `scheme`: name of the routing scheme.
    `copies`: whether a message may cross a link in several frames.
    `window_s`, `step_s`: window of a curve and its step, experiment seconds.
    `steps`, `missed_steps`: steps of the window before the last one.
    `missed_step_s`: step of the curve of missed deliveries, experiment seconds.
    """
    protocol = inputs.experiment.get("protocol", {})
    # Of the waits of exponential timers, all but 2 in 10^9.
    times = 20 if protocol.get("timers") == "exponential" else 1
    wait_s = times * protocol.get("ra_min_interval_s", 0) + protocol.get("ra_jitter_s", 0)
    return {
        "bin_s": double(inputs.bin_s),
        "bins": str(inputs.bins),
        "start_ns": str(inputs.clock.start_ns),
        "last_ns": str(inputs.log.last_ns),
        "wait_ns": str(_SENT_NS + round(wait_s / min(inputs.clock.rates) * NS)),
        "resolution_ns": str(contradictions.resolution_ns(inputs)),
        "named": str(contradictions.NAMED),
        "all_hosts": "true" if inputs.all_hosts_captured else "false",
        "unbroken": "true" if inputs.captures_unbroken else "false",
        "private": "true" if inputs.private else "false",
        "scheme": "'" + schemes.scheme_name(inputs).replace("'", "''") + "'",
        "copies": "true" if inputs.message_frames == "copies" else "false",
        "window_s": double(WINDOW_S),
        "step_s": double(STEP_S),
        "steps": str(_STEPS - 1),
        # The window, of five steps, is never shorter than 10 ms of wall time: it would hold single messages.
        "missed_step_s": double(max(0.25, 0.01 * max(inputs.clock.rates)) / 5),
        "missed_steps": "4",
    }


#: The most stages that a line of progress names.
_NAMED = 3
#: Stages that nothing overlaps, or that most others wait for: each begins a step of the progress.
START = "start of Spark"
_PHASES = (START, store.FRAMES, "summary", "tables")


class Shown(Protocol):
    """The progress of a command, such as `testbed.terminal.progress.Progress`."""

    def step(self, name: str) -> None:
        """Begins a step, whose duration is shown at the end."""

    def update(self, text: str) -> None:
        """Shows a line about the work under way."""


class Stages:
    """Collects the stages of one accounting, which run in several threads.

    Args:
        progress: is called whenever a stage begins or ends, in any thread.
        expected: number of the stages.
    """

    def __init__(self, progress: Shown | None = None, expected: int = 0) -> None:
        self.expected = expected
        self._progress = progress
        self._lock = threading.Lock()
        self._started = time.monotonic()
        self._going: list[str] = []
        #: When each stage began, not rounded, and the stage.
        self._done: list[tuple[float, StageTime]] = []

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """A stage, as long as the block runs."""
        began = time.monotonic()
        with self._lock:
            self._going.append(name)
            self._show(name if name in _PHASES else None)
        try:
            yield
        finally:
            seconds = time.monotonic() - began
            done = StageTime(name=name, began_s=round(began - self._started, 3), seconds=round(seconds, 3))
            with self._lock:
                self._going.remove(name)
                self._done.append((began, done))
                self._show("queries" if name == store.FRAMES else None)

    def _show(self, step: str | None) -> None:
        """Shows the stages, and a step that begins; within the lock, so that the lines come in order."""
        if self._progress is None:
            return
        if step is not None:
            self._progress.step(step)
        count = max(self.expected, len(self._done) + len(self._going))
        names = ", ".join(self._going[:_NAMED]) + (", ..." if len(self._going) > _NAMED else "")
        self._progress.update(f"{len(self._done)} of {count} stages" + (f"; {names}" if names else ""))

    def record(self, engine: str, master: str | None) -> Accounting:
        """The stages that have ended, for the run folder."""
        with self._lock:
            return Accounting(
                engine=engine,
                master=master,
                seconds=round(time.monotonic() - self._started, 3),
                stages=[stage for _, stage in sorted(self._done, key=lambda done: done[0])],
            )


class Sources(dict[str, pa.Table]):
    """The inputs of one run as tables, each of which is made when it is first needed."""

    def __init__(self, inputs: Inputs) -> None:
        super().__init__()
        self.inputs = inputs

    def __missing__(self, name: str) -> pa.Table:
        return self.setdefault(name, INPUTS[name](self.inputs))

    def prepare(self) -> None:
        """Makes all of them."""
        for name in INPUTS:
            self[name]


class Steps:
    """The tables and steps of one run on an engine.

    Each is made once, when it is first needed.

    Args:
        stages: takes the times of what is made.
    """

    def __init__(self, engine: Engine, sources: Sources, stages: Stages | None = None) -> None:
        self._engine, self.sources = engine, sources
        self._stages = stages or Stages()
        self._values = values(sources.inputs)
        self._made: set[str] = set()

    def make(self, asked: Collection[str], done: Callable[[str], None] | None = None) -> None:
        """Makes tables, and what they need; calls `done` with the name of each, in any thread.

        Raises:
            Exception: what the engine or `done` has raised.
        """
        names = [name for name in in_order(asked, reads_of) if name in asked or name not in self._made]
        made: dict[str, Future[None]] = {}

        def work(name: str) -> None:
            # What it reads has begun before, so that the threads never all wait.
            for read in reads_of(name):
                if read in made:
                    made[read].result()
            with self._stages.stage(name) if name in asked else nullcontext():
                if name not in self._made:
                    self._make(name, shared=_READERS[name] + (name in asked) > 1)
                    self._made.add(name)
                if name in asked and done is not None:
                    done(name)

        if self._engine.at_once == 1:
            for name in names:
                work(name)
            return
        with ThreadPoolExecutor(self._engine.at_once) as pool:
            for name in names:
                made[name] = pool.submit(work, name)
            try:
                ended, _ = wait(made.values(), return_when=FIRST_EXCEPTION)
                for future in ended:
                    future.result()
            except BaseException:
                # An error does not wait for the other queries.
                pool.shutdown(wait=False, cancel_futures=True)
                self._engine.end(made.values())
                raise

    def _make(self, name: str, *, shared: bool) -> None:
        if name == store.FRAMES:
            self._engine.read_captures(name, self.written_out(texts()[name]))
        elif name in texts():
            self._engine.define(name, self.written_out(texts()[name]), shared=shared)
        elif name != CAPTURED:
            self._engine.register(name, self.sources[name])

    def export(self, name: str, folder: Path) -> None:
        """Writes a table of the catalogue into the folder of all tables."""
        if name in texts():
            self._engine.export(name, folder)
        else:
            store.write_arrow(self.sources[name], folder, name)

    def rows(self, name: str) -> list[dict[str, Any]]:
        """The rows of a table or step that was made."""
        found: list[dict[str, Any]] = self._engine.rows(name).to_pylist()
        return found

    def written_out(self, text: str, **others: str) -> str:
        """A text for the engine, with other values for some of the names."""
        return written_out(text, self.sources.inputs.clock, {**self._values, **others})


def reads_of(name: str) -> Collection[str]:
    """The names that a table or step reads directly."""
    return reads(texts()[name]) if name in texts() else ()


#: Every table and step.
KNOWN = frozenset((*texts(), *INPUTS))
#: Name -> number of the texts and steps that read it.
_READERS = Counter(read for name in texts() for read in reads_of(name))
