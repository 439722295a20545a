"""One engine on one table, measured in a process of its own."""

from __future__ import annotations

import gc
import multiprocessing
import statistics
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from router.matching.columns import ConstraintColumns
from router.matching.engines import factory
from router.predicates import Message
from router.wire.message import encode_message
from testbed.support.usage import resident_bytes

#: Every engine answers so many messages, however slow it is.
_FEWEST = 10


@dataclass(frozen=True)
class Measured:
    """The result of a measurement.

    Attributes:
        build_s: from columns to a table.
        nbytes: memory of the table: as the engine has it, or else what the process has grown by.
        median_us: microseconds a message, matching alone.
        messages: how many were matched.
        matches: interfaces matched by them, in all.
    """

    build_s: float
    nbytes: int
    median_us: float
    messages: int
    matches: int


def measure(engine: str, table: ConstraintColumns, messages: Sequence[Message], budget_s: float) -> Measured:
    """Builds the engine and matches the messages in turn, for `budget_s` at most.

    In a child process: it starts with the same memory for every engine, and what it takes is given back.

    Raises:
        RuntimeError: the child died, as it does when memory runs out.
    """
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_child, args=(engine, table, messages, budget_s, sender))
    gc.collect()
    gc.freeze()
    child.start()
    sender.close()
    try:
        measured: Measured = receiver.recv()
    except EOFError:
        child.join()
        raise RuntimeError(f"{engine}: the measuring process ended with status {child.exitcode}") from None
    finally:
        gc.unfreeze()
    child.join()
    return measured


def _child(
    engine: str,
    table: ConstraintColumns,
    messages: Sequence[Message],
    budget_s: float,
    sender: multiprocessing.connection.Connection,
) -> None:
    resident = resident_bytes()
    # What is compiled is loaded by now, as it is in routers.
    factory(engine).match(messages[0])
    matcher = factory(engine)
    started = time.perf_counter()
    matcher.load(table)
    build_s = time.perf_counter() - started
    # Messages as the engine takes them: from the wire, or decoded.
    match: Callable[[Any], Collection[int] | None] = matcher.match
    inputs: Sequence[Any] = messages
    bodies = [encode_message(message) for message in messages]
    if matcher.match_encoded(bodies[0]) is not None:
        match, inputs = matcher.match_encoded, bodies
    match(inputs[0])
    gc.collect()
    gc.freeze()
    gc.disable()
    nbytes = resident_bytes() - resident if matcher.nbytes is None else matcher.nbytes
    times: list[int] = []
    matches = 0
    deadline = time.perf_counter() + budget_s
    for number, message in enumerate(inputs):
        begun = time.perf_counter_ns()
        found = match(message)
        times.append(time.perf_counter_ns() - begun)
        assert found is not None
        matches += len(found)
        if number + 1 >= _FEWEST and time.perf_counter() > deadline:
            break
    sender.send(Measured(build_s, nbytes, statistics.median(times) / 1e3, len(times), matches))
