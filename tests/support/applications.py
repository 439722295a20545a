"""The records of applications in run folders of tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from captures.rundir import RunLayout
from captures.rundir.applications import Change, Recorded, read_applications
from router.predicates.parser import parse_predicate
from router.records.applications import ApplicationRecords, MessageDelivered, MessageSent, PredicateSet
from router.records.attention import ServiceRecords


def application_events(run_dir: Path) -> list[dict[str, Any]]:
    """Returns what the applications of a run did, in order of time."""
    events = [dict(recorded.event) for _, recorded in read_applications(RunLayout(run_dir))]
    return sorted(events, key=lambda event: event["t_ns"])


def failed(error: OSError) -> None:
    raise error


def records_in(run_dir: Path, node: int) -> ApplicationRecords:
    """Returns the writer of a router's records; an error of writing is raised."""
    run = RunLayout(run_dir)
    run.applications_folder.mkdir(parents=True, exist_ok=True)

    return ApplicationRecords(run.applications_of(node), failed)


def service_records_in(run_dir: Path, node: int) -> ServiceRecords:
    """Returns the writer of the records of a router's service; an error of writing is raised."""
    run = RunLayout(run_dir)
    run.service_folder.mkdir(parents=True, exist_ok=True)

    return ServiceRecords(run.service_records_of(node), failed)


def predicate_event(node: int, at_ns: int, predicate: str, app: str = "x") -> Recorded:
    """A new predicate, requested 1 ns before."""
    event = PredicateSet(
        event="set_predicate", t_ns=at_ns, node=node, app=app, requested_ns=at_ns - 1, predicate=predicate
    )
    return Recorded(event, Change(at_ns - 1, parse_predicate(predicate)))


def message_event(seq: int, at_ns: int, value: int = 1) -> Recorded:
    """A message `a = value` of node 0, requested 1 ns before."""
    return Recorded(message_sent(seq, at_ns - 1, at_ns, value))


def message_sent(seq: int, requested_ns: int, at_ns: int, value: int) -> MessageSent:
    return MessageSent(
        event="send_message", t_ns=at_ns, node=0, app="x", requested_ns=requested_ns, source=0, seq=seq,
        attributes={"a": value},
    )  # fmt: skip


def delivery_event(node: int, seq: int, at_ns: int, source: int = 0, app: str = "x") -> Recorded:
    return Recorded(MessageDelivered(event="deliver", t_ns=at_ns, node=node, app=app, source=source, seq=seq))


def deliveries_so_far(run_dir: Path) -> int:
    """The number of deliveries that the routers of a run have recorded, which may not have begun yet."""
    run = RunLayout(run_dir)
    if not run.applications_folder.is_dir():
        return 0
    return sum(each.event["event"] == "deliver" for _, each in read_applications(run))
