"""Engines on the same table, each in a child process, which take turns on one core.

A block has each engine match the same messages, in random order of the engines. The ratio of two engines is
taken within each block, so that a load that comes and goes meets both.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt
import psutil

from tests.bench.peers import batch_of

#: Messages that are matched before, and in, each block.
WARM_UP, TIMED = 20, 200
#: Seconds that an engine takes at most: for a block, for the comparison of answers, for changes of a kind.
#: Slow engines match and change less, but a few at least.
_BLOCK_S, _ANSWERS_S, _CHANGES_S = 0.25, 2.0, 0.3
_FEWEST, _FEWEST_CHANGES = 2, 25
_Times = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Task:
    """A table and its messages.

    Attributes:
        make: name of an engine -> what builds it (a `Peer`, or an object with the methods of a peer that are
            used), on this table or, for True, on a small table, which warms it up.
        messages: the arguments of `prepare`; the first are timed.
        changes: the arguments of `insert`, beginning with the number; none: changes are not measured.
        constraints: of the table: intervals.
        expected: matches of a message, where a formula has them.
    """

    make: Mapping[str, Callable[[bool], Any]]
    messages: Sequence[tuple[Any, ...]]
    changes: Sequence[tuple[Any, ...]]
    constraints: int
    expected: float | None = None


@dataclass
class Measured:
    """An engine on a table.

    Attributes:
        why_not: why nothing was measured; "" otherwise.
        build_s: seconds, once the code is compiled.
        own, grown: bytes: as the engine counts them; by which the private memory of the process grew.
        idle_us: see `Peer.idle`, the median.
        insert_us, delete_us: medians of single changes; None: not measured.
        answers: by message: how many were found, and a checksum of them.
        blocks: by block, microseconds of each message.
        batch_us: microseconds of the processor for a message, the median over the blocks of the same messages
            in a single call; None: there is no such call.
    """

    exact: bool = True
    why_not: str = ""
    build_s: float = 0.0
    own: int = 0
    grown: int = 0
    idle_us: float = 0.0
    batch_us: float | None = None
    insert_us: float | None = None
    delete_us: float | None = None
    answers: list[tuple[int, int]] = field(default_factory=list)
    blocks: list[_Times] = field(default_factory=list)

    @property
    def us(self) -> float:
        return float(np.median([np.median(block) for block in self.blocks]))

    def ratios(self, other: Measured) -> list[float]:
        """Quartiles over the blocks of this median by the other's, for the messages that both matched."""
        ratios = []
        for own, its in zip(self.blocks, other.blocks, strict=True):
            both = min(len(own), len(its))
            ratios.append(np.median(own[:both]) / np.median(its[:both]))
        return [float(quartile) for quartile in np.percentile(ratios, (25, 50, 75))]

    def wrong(self, reference: Measured) -> int | None:
        """Returns the number of the first message with a wrong answer."""
        for number, (own, its) in enumerate(zip(self.answers, reference.answers, strict=False)):
            if own != its if self.exact else own[0] < its[0]:
                return number
        return None


def measure(task: Task, blocks: int, seed: int) -> dict[str, Measured]:
    """Measures the engines of a task; of an engine without the memory, `why_not` alone."""
    random, core = Random(seed), max(os.sched_getaffinity(0))
    found = {name: Measured() for name in task.make}
    # Children share what they do not write to.
    gc.collect()
    gc.freeze()
    turns = {name: _start(make, task, blocks, core) for name, make in task.make.items()}
    for _ in range(blocks + 3):
        for name in random.sample(names := [*turns], len(names)):
            turns[name].send(True)
            try:
                result = turns[name].recv()
            except EOFError:
                result = {"why_not": "the process was killed"}
            for key, value in result.items():
                setattr(found[name], key, [*found[name].blocks, value] if key == "blocks" else value)
            if found[name].why_not:
                del turns[name]
    gc.unfreeze()
    return found


def _start(*work: Any) -> Connection:
    """Starts a child that works while it has its turn only: from a message until it answers."""
    context = multiprocessing.get_context("fork")
    pipe, end = context.Pipe()
    context.Process(target=_serve, args=(end, *work), daemon=True).start()
    end.close()
    return pipe


def _serve(pipe: Connection, make: Callable[[bool], Any], task: Task, blocks: int, core: int) -> None:
    os.sched_setaffinity(0, {core})
    turns = _turns(make, task, blocks)
    try:
        for _ in range(blocks + 3):
            pipe.recv()
            pipe.send(next(turns))
    except MemoryError as error:
        pipe.send({"why_not": str(error) or "out of memory"})


def _turns(make: Callable[[bool], Any], task: Task, blocks: int) -> Iterator[dict[str, Any]]:
    """Builds an engine, answers, matches the blocks, changes: yields fields of `Measured` after each turn."""
    # What is compiled once is loaded by now, as it is in routers.
    small = make(True)
    prepared = small.prepare(*task.messages[0])
    small.run(*prepared)
    small.idle(*prepared)
    if searches := hasattr(small, "search"):
        batch_of(small.search)(*small.prepare_batch(task.messages[:1]))
    for _, *rows in task.changes[:1]:
        small.delete(0)
        small.insert(0, *rows)
    del small, prepared
    before, begun = psutil.Process().memory_full_info().uss, time.perf_counter()
    subject = make(False)
    build_s = time.perf_counter() - begun
    gc.collect()
    grown = psutil.Process().memory_full_info().uss - before
    timed = [subject.prepare(*message) for message in task.messages[: WARM_UP + TIMED]]
    gc.freeze()
    gc.disable()
    yield {"exact": subject.exact, "build_s": build_s, "own": subject.nbytes, "grown": grown}

    idle = _times(subject.idle, timed, _BLOCK_S)
    answers: list[tuple[int, int]] = []

    def answer(*message: Any) -> None:
        numbers = np.sort(subject.numbers(subject.run(*subject.prepare(*message)))).astype(np.int32)
        answers.append((len(numbers), zlib.crc32(numbers.tobytes())))

    _times(answer, task.messages, _ANSWERS_S)
    yield {"answers": answers, "idle_us": float(np.median(idle))}

    batches = list[float]()
    for _ in range(blocks):
        _times(subject.run, timed[:WARM_UP], _BLOCK_S / 10)
        block = _times(subject.run, timed[WARM_UP:], _BLOCK_S)
        if searches:
            batch = subject.prepare_batch(task.messages[WARM_UP:][: len(block)])
            # Longer than a turn of the processor.
            begun_ns = time.process_time_ns()
            batch_of(subject.search)(*batch)
            batches.append((time.process_time_ns() - begun_ns) / 1e3 / len(block))
        yield {"blocks": block, "batch_us": float(np.median(batches)) if batches else None}

    if not task.changes:
        yield {}
    inserts = _times(subject.insert, task.changes, _CHANGES_S, _FEWEST_CHANGES)
    numbers = [change[:1] for change in task.changes[: len(inserts)]]
    deletes = _times(subject.delete, numbers, _CHANGES_S, _FEWEST_CHANGES)
    yield {"insert_us": float(np.median(inserts)), "delete_us": float(np.median(deletes))}


def _times(
    call: Callable[..., object], arguments: Sequence[tuple[Any, ...]], most_s: float, fewest: int = _FEWEST
) -> _Times:
    """Returns microseconds of a call with each arguments; of fewer calls, if they take too long."""
    times = list[int]()
    clock = time.perf_counter_ns
    deadline = clock() + most_s * 1e9
    for each in arguments:
        begun = clock()
        call(*each)
        times.append((ended := clock()) - begun)
        if ended > deadline and len(times) >= fewest:
            break
    return np.array(times) / 1e3
