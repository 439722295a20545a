"""The evidence on the messages of a run that goes on: what its parts have written so far.

Records of applications are written at most 0.1 s after the event, captured frames at most a second after
they were captured. The tables of the routers are those of the moment.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from captures.accounting.log_tables import application_tables, oracle_rows, routing_rows
from captures.accounting.run_tables import read_trees
from captures.accounting.texts import experiment_seconds
from captures.datasource.opening import frames_of
from captures.rundir import RunLayout
from captures.rundir.capture_list import CapturedFile, capture_paths
from captures.rundir.clock import read_clock
from captures.rundir.inputs import read_topology
from captures.rundir.oracle import OracleAnswer
from captures.rundir.routing_tables import TableRow
from captures.tables.query import Database, new_database
from testbed.experiments.config import Experiment
from testbed.experiments.config.load import load_experiment
from testbed.results.conclude import hop_limit_of
from testbed.results.oracle.decide import judge
from testbed.results.oracle.history import Sending, read_history
from testbed.results.trace import Trace, find, listed, message_id, publications
from testbed.results.trace.build import trace
from testbed.results.trace.show import lines, listing
from testbed.terminal.numbers import message

#: Wall seconds after which records, captured frames and confirmations are in their files: twice what the
#: recorder of the captures takes, which a busy machine delays.
_WRITTEN_S = 2.0
#: Longest waits, in wall seconds: for the record of the sending, and for the evidence on a message that was
#: sent a moment ago. On a busy machine what should be written at once may take seconds.
_LOOKUP_S, _WAIT_S = 3.0, 10.0
_POLL_S = 0.1
_COLUMNS = (
    *("kind", "node", "direction", "from_node", "to_node", "type", "time_ns", "issuer", "seq", "epoch"),
    *("destination", "undecodable", "fragment_index"),
)
#: The table `messages`, before the oracle has judged any.
_MESSAGES = """
    create temp table messages as
    select sent.source, sent.seq, sent.seq & 4294967295 as number, {sent_s} as sent_s,
        0 as deliveries_expected,
        (select count(distinct (got.node, got.app)) from applications as got
            where got.event = 'deliver' and got.source = sent.source and got.seq = sent.seq) as delivered,
        0 as missed, sent.text as message
    from applications as sent where sent.event = 'send_message'
"""


def live_trace(
    run: RunLayout, tables: Callable[[], Mapping[int, Sequence[TableRow]]], name: str
) -> Iterator[str]:
    """Returns the way of a message of a live run as lines, and what is not known yet.

    Waits for the evidence on a message that was sent a moment ago, at most 10 wall seconds.

    Args:
        tables: asks the routers for the rows of their tables, by node.
        name: the message, such as 3:17.

    Raises:
        InputError: no message, or several, have this name; or the run's experiment cannot be used.
        RunFolderError: a record is malformed.
    """
    source, number = message_id(name)
    if _has_publications(run):
        found = publications.publication(run, source, number)
        yield from publications.lines(found, read_topology(run))
        return
    experiment = load_experiment(run.experiment)
    # The oracle has judged a message when its window has passed, and records are written.
    due_s = experiment.oracle.in_flight_window_s + _WRITTEN_S
    started = time.monotonic()
    while not _named(run, name) and time.monotonic() < started + _LOOKUP_S:
        time.sleep(_POLL_S)
    while True:
        now_ns = time.time_ns()
        way = _way(run, tables(), name, experiment, now_ns)
        left_s = _WAIT_S - (time.monotonic() - started)
        age_s = (now_ns - way.sent_ns) / 1e9
        if (
            left_s <= 0
            or age_s > due_s + _WAIT_S
            or (_is_whole(way) and (way.judged or due_s > age_s + left_s))
        ):
            break
        time.sleep(_POLL_S)
    yield from lines(way)
    yield ""
    age = f"{age_s:.1f} s after its sending"
    unknown = "" if way.judged else ": who should have got it is not known yet"
    yield f"the run goes on; this is what it had recorded {age}{unknown}"


def _way(
    run: RunLayout, tables: Mapping[int, Sequence[TableRow]], name: str, experiment: Experiment, now_ns: int
) -> Trace:
    """Returns the trace of a message by what has been written; judged, if it is old enough at `now_ns`."""
    window_s = experiment.oracle.in_flight_window_s
    history = read_history(run, hop_limit_of(experiment), unfinished=True)
    history.sendings = [each for each in history.sendings if _has_name(each, name)]
    margin_ns = (window_s + _WRITTEN_S) * 1e9
    judged = all(now_ns - each["t_ns"] >= margin_ns for each in history.sendings)
    answers = list(judge(history, window_s)) if judged else []
    with _database(run, tables, answers) as database:
        way = trace(run.path, database, find(database, name), live=True)
    way.judged = judged
    return way


def _is_whole(way: Trace) -> bool:
    """Whether each part of the evidence agrees: no frame, and no expected delivery, seems to be missing."""
    receivers = [each for stop in way.stops for each in stop.receivers]
    arrived = all(stop.arrived_s is not None for stop in way.stops)
    return arrived and not way.unreached and not any(each.missed for each in receivers)


def live_listing(run: RunLayout) -> Iterator[str]:
    """Returns a line for each message of a live run: what it is and how often it was delivered."""
    if _has_publications(run):
        yield from publications.listing(publications.publications(run))
        return
    with _database(run, {}, []) as database:
        yield from listing(listed(database), live=True)


def _has_publications(run: RunLayout) -> bool:
    return any(run.service_folder.glob("*.jsonl"))


def _has_name(sending: Sending, name: str) -> bool:
    """Whether a message has a name such as 3:17, with its router's count or the whole sequence number."""
    return name in (message(sending["source"], sending["seq"]), f"{sending['source']}:{sending['seq']}")


def _named(run: RunLayout, name: str) -> list[Sending]:
    return [each for each in read_history(run, unfinished=True).sendings if _has_name(each, name)]


@contextmanager
def _database(
    run: RunLayout, tables: Mapping[int, Sequence[TableRow]], answers: Sequence[OracleAnswer]
) -> Iterator[Database]:
    """A database with the tables that a trace reads (`testbed.results.trace.build`)."""
    clock = read_clock(run, unfinished=True)
    events = application_tables(run).events(clock)
    files = capture_paths(run)
    captures = [CapturedFile(each, path, "", 0, 0, 0) for path, each in files.items()]
    sources = set(events["source"].drop_null().to_pylist())
    held = {
        "applications": events,
        "frames": frames_of(files, _COLUMNS, growing=True).read_all(),
        "trees": read_trees(captures, run.path, sources),
        "oracle": oracle_rows(answers),
        "routing_tables": routing_rows(tables),
    }
    with new_database(threads=1) as database:
        for name, table in held.items():
            database.register(name, table)
        database.execute(_MESSAGES.format(sent_s=experiment_seconds(clock, "sent.requested_ns")))
        yield database
