"""The way of a publication of the attention-limited service through caches and to subscriptions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from captures.rundir import RunLayout
from captures.rundir.applications import read_attention
from captures.rundir.clock import Clock, read_clock
from router.predicates import Message, matches
from router.predicates.parser import parse_predicate
from router.predicates.printer import format_message
from router.records.attention import AttentionEvent
from testbed.results.trace.show import table
from testbed.support.errors import InputError, reading
from testbed.terminal.numbers import counted
from topos import Topology

#: The low half of a sequence number is the router's count.
_COUNT = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class Step:
    """An event of a publication at a router.

    Attributes:
        at_s: experiment seconds.
        what: the event, in words.
    """

    at_s: float
    node: int
    what: str


@dataclass(slots=True)
class Publication:
    """A publication and its events, in order of time.

    Attributes:
        number: low half of `seq`.
        deliveries: subscriptions that it was delivered to.
        caches: whether the routers recorded changes of their caches.
    """

    source: int
    seq: int
    uploaded_s: float
    message: str
    deliveries: int = 0
    caches: bool = False
    steps: list[Step] = field(default_factory=list)

    @property
    def number(self) -> int:
        return self.seq & _COUNT


def publications(run: RunLayout, where: str | None = None) -> list[Publication]:
    """Returns the publications of a run in order of time, without their steps.

    Raises:
        InputError: `where` is no predicate.
        RunFolderError: a record is malformed.
    """
    with reading("--where"):
        predicate = None if where is None else parse_predicate(where)
    found: dict[tuple[int, int], Publication] = {}
    counts = Counter[tuple[int, int]]()
    for at_s, record in _records(run):
        if record["event"] == "upload":
            message = Message(record["attributes"])
            if predicate is None or matches(predicate, message):
                key = record["source"], record["seq"]
                found[key] = Publication(*key, at_s, format_message(message))
        elif record["event"] == "deliver":
            counts[record["source"], record["seq"]] += 1
    for key, each in found.items():
        each.deliveries = counts[key]
    return sorted(found.values(), key=lambda each: (each.uploaded_s, each.source))


def publication(run: RunLayout, source: int, number: int) -> Publication:
    """Returns a publication with its steps.

    Args:
        number: the router's count (from 1), or the whole sequence number.

    Raises:
        InputError: no publication, or several, have this name.
        RunFolderError: a record is malformed.
    """
    of_source = [each for each in publications(run) if each.source == source]
    found = [each for each in of_source if number in (each.number, each.seq)]
    if not found:
        raise InputError(f"{source}:{number}: no such publication; `cbcb trace` lists them")
    if len(found) > 1:
        choices = ", ".join(f"{source}:{each.seq} (at {each.uploaded_s:.3f} s)" for each in found)
        raise InputError(f"{source}:{number}: {len(found)} publications: {choices}; choose one")
    (one,) = found
    for at_s, record in _records(run):
        one.caches = one.caches or record["event"] == "cache"
        if record["event"] not in ("upload", "deliver", "cache"):
            continue
        if (record["source"], record["seq"]) == (source, one.seq):
            one.steps.append(Step(at_s, record["node"], _words(record)))
    # The records of a router are in order of time, and the upload is first.
    one.steps.sort(key=lambda step: step.at_s)
    return one


def lines(one: Publication, topology: Topology) -> Iterator[str]:
    """Returns the way of a publication as lines, with the names of the nodes of the topology."""
    yield f"publication {one.source}:{one.number}  {one.message}"
    when = f"uploaded at {one.uploaded_s:.3f} s (experiment time) at r{topology.label(one.source)}"
    yield f"{when}, sequence number {one.seq}"
    times = "once" if one.deliveries == 1 else f"{one.deliveries} times"
    yield f"delivered {times}; events at {counted(len({step.node for step in one.steps}), 'router')}"
    yield ""
    width = max(len(topology.label(step.node)) for step in one.steps)
    for step in one.steps:
        yield f"{step.at_s - one.uploaded_s:+12.6f} s  r{topology.label(step.node).ljust(width)}  {step.what}"
    if not one.caches:
        yield ""
        yield "[service] record_caches = true records how it moves between the indexes of the caches"


def listing(found: list[Publication]) -> Iterator[str]:
    rows = [
        (f"{each.source}:{each.number}", f"{each.uploaded_s:.3f}", str(each.deliveries), each.message)
        for each in found
    ]
    yield from table(("publication", "uploaded (s)", "delivered", "content"), rows, None)


def _words(record: AttentionEvent) -> str:
    if record["event"] == "deliver":
        source = {"remote": "another router sent it", "upload": "uploaded here"}.get(
            record["whence"], f"from {record['whence'].upper()}"
        )
        return (
            f"delivered to subscription {record['subscription']}, round {record['round']}, "
            f"age {record['age_s']:.3f} s: {source}"
        )
    if record["event"] == "cache":
        before, after = (
            "-" if each is None else each.upper() for each in (record["before"], record["after"])
        )
        return f"{before} -> {after}: {record['cause']}"
    return "uploaded"


def _records(run: RunLayout) -> Iterator[tuple[float, AttentionEvent]]:
    clock: Clock = read_clock(run)
    for _, record in read_attention(run):
        yield clock.experiment_at(record["t_ns"]), record
