"""A recording explains a router's decision on a message, although its table has changed since."""

from __future__ import annotations

from pathlib import Path

import pytest

from router.predicates import Message
from router.predicates.parser import parse_predicate
from router.predicates.printer import format_predicate
from router.protocol.events import ControllerFrame, Event, FrameReceived, SendMessage, SetPredicate, Started
from router.protocol.options import RouterOptions
from router.recording.file import Origin, Recorder, RecordingError
from router.wire.frames import Body, Commit, Frame, FrameType
from testbed.results.recordings import decision
from tests.support.router_tables import by_interface
from tests.support.tree_entries import TreeEntry, table_of

NODE = 5
FIRST = (1 << 32) + 1
TABLE = table_of(
    ((1, 11), (2, 12)), (TreeEntry(NODE, 0, (1, 2), 0), TreeEntry(11, 1, (2,), 1), TreeEntry(12, 2, (1,), 2))
)


def _frame(kind: FrameType, issuer: int, seq: int, body: Body, hop_limit: int = 9) -> Frame:
    return Frame(kind, issuer, seq, 1, hop_limit, body)


def _from(sender: int, kind: FrameType, seq: int, body: Body, hop_limit: int = 9) -> FrameReceived:
    return FrameReceived(sender, _frame(kind, sender, seq, body, hop_limit))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Router 5 sends a message before it has a table, forwards one from 11, learns of node 12, drops one."""
    cheap = Message({"price": 50})
    set_up = [
        ControllerFrame(_frame(FrameType.TABLE, NODE, FIRST, TABLE)),
        ControllerFrame(_frame(FrameType.COMMIT, NODE, FIRST + 1, Commit(1))),
    ]
    events: list[Event] = [
        Started(),
        SendMessage(1, cheap),
        _from(12, FrameType.RA, 1, parse_predicate("price < 100")),
        *set_up,
        _from(12, FrameType.RA, 1, parse_predicate("price < 100")),
        _from(11, FrameType.MSG, 7, cheap),
        _from(12, FrameType.RA, 2, parse_predicate("price > 500")),
        _from(11, FrameType.MSG, 8, cheap, hop_limit=1),
        SendMessage(1, Message({"price": 300})),
    ]
    _record(tmp_path, events)
    return tmp_path


def _record(run: Path, events: list[Event]) -> None:
    """Recordings of a run in which the router gets these events, one a second."""
    (run / "recordings").mkdir(exist_ok=True)
    origin = Origin(NODE, RouterOptions(), "naive", 1, 1)
    recorder = Recorder(run / "recordings" / f"r{NODE}.rec", origin)
    router = origin.router()
    for at, event in enumerate(events):
        recorder.event(event, float(at))
        recorder.actions(event, router.handle(event, float(at)))
    recorder.end()
    recorder.close()


def _said(run: Path, source: int, seq: int) -> tuple[dict[int, str], str | None] | None:
    found = decision(run, NODE, source, seq)
    if found is None:
        return None
    return {
        i: format_predicate(predicate) for i, predicate in by_interface(found.table).items()
    }, found.dropped


def test_the_table_is_that_of_the_moment(run: Path) -> None:
    assert _said(run, 11, 7) == ({2: "price < 100"}, None)
    assert _said(run, 11, 8) == ({2: "price < 100 or price > 500"}, "hop_limit")


def test_a_message_of_its_own_counts_when_it_goes_out(run: Path) -> None:
    # Held until there are trees; then nobody was known to want it.
    assert _said(run, NODE, FIRST) == ({}, None)
    assert _said(run, NODE, FIRST + 1) == ({2: "price < 100 or price > 500"}, None)


def test_a_copy_from_beside_the_tree_is_not_the_end_of_a_message(tmp_path: Path) -> None:
    # Layer `rpf`: node 12 floods what this router should get, and gets, from 11.
    events: list[Event] = [
        Started(),
        ControllerFrame(_frame(FrameType.TABLE, NODE, FIRST, TABLE)),
        ControllerFrame(_frame(FrameType.COMMIT, NODE, FIRST + 1, Commit(1))),
        SetPredicate(1, parse_predicate("price < 100")),
        *(
            FrameReceived(sender, _frame(FrameType.MSG, 11, 7, Message({"price": 50})))
            for sender in (12, 11, 12)
        ),
    ]
    _record(tmp_path, events)
    assert _said(tmp_path, 11, 7) == ({0: "price < 100"}, None)
    _record(tmp_path, events[:-2])
    assert _said(tmp_path, 11, 7) == ({0: "price < 100"}, "reverse_path")


def test_what_is_not_recorded_is_not_known(run: Path) -> None:
    assert _said(run, 11, 9) is None
    assert decision(run, 6, 11, 7) is None
    (run / "recordings" / "r6.rec").write_bytes(b"something else")
    with pytest.raises(RecordingError, match=r"r6\.rec"):
        decision(run, 6, 11, 7)
