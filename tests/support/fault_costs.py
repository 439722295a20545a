"""The cost of each fault of the experiment `faults`: deliveries lost and late, and the time to recover.

A row covers the time from a fault to the next one. *Expected* are the deliveries of messages sent in that
time to applications to which a way led, and whose predicates did not change near the sending, nor before the
end of the fault; *lost* are those never made; *delay* is the greatest of the others; *away* is the time from
the fault to its end; *back* is the time from the end of the fault to the sending of the last message of which
a delivery was lost. All times are wall seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from captures.rundir import RunLayout
from captures.rundir.applications import read_applications
from captures.rundir.controller import read_controller
from captures.rundir.epochs import LINK_DOWN, LINK_UP, NODE_DOWN, NODE_UP
from captures.rundir.faults import read_faults
from captures.rundir.oracle import read_oracle
from testbed.results.oracle.history import Application, read_history

_NS = 1e9
_WINDOW_NS = 500_000_000
#: Time in which the controller notices a device that goes down.
_NOTICED_NS = 50_000_000
#: Changes of links closer to each other than this make one row, in ns of wall time.
_ONE_ROW_NS = 1_000_000_000


@dataclass
class Row:
    """A fault and its cost.

    Attributes:
        fault: the fault in words.
        began_ns, ended_ns: wall clock, ns.
        expected: deliveries of messages sent from the fault to the next one.
        lost: those that were never made.
        decided: deliveries of messages sent from the end of the fault to the next one, that the oracle
            decides.
        delay_s: greatest delay of those that were made, wall seconds.
        back_s: see the module.
    """

    fault: str
    began_ns: int
    ended_ns: int
    expected: int = 0
    lost: int = 0
    decided: int = 0
    delay_s: float = 0.0
    back_s: float = 0.0

    @property
    def away_s(self) -> float:
        return (self.ended_ns - self.began_ns) / _NS


def _faults(run: RunLayout) -> Iterator[Row]:
    """Yields the faults, without numbers."""
    open_rows: dict[tuple[str, int | None], Row] = {}
    for record in read_faults(run):
        part, node = record["part"], record.get("node")
        if record["what"] in ("stopped", "killed", "exhausted"):
            where = "" if node is None else f" of node {node}"
            row = Row(f"{part}{where} {record['what']}", record["t_ns"], record["t_ns"])
            open_rows[part, node] = row
            yield row
        elif (part, node) in open_rows:
            open_rows[part, node].ended_ns = record["t_ns"]
    last: Row | None = None
    for _, event in read_controller(run):
        if event["event"] in (LINK_DOWN.name, LINK_UP.name):
            what = f"link {event['u']}-{event['v']} flaps"
        elif event["event"] in (NODE_DOWN.name, NODE_UP.name):
            what = f"node {event['node']} down"
        else:
            continue
        if last is not None and (last.fault == what or event["t_ns"] - last.ended_ns < _ONE_ROW_NS):
            last.ended_ns = event["t_ns"]
            if event["event"] == NODE_DOWN.name:
                last.fault = what  # it takes its links along
            continue
        if event["event"] in (LINK_DOWN.name, NODE_DOWN.name):
            last = Row(what, event["t_ns"] - _NOTICED_NS, event["t_ns"])
            yield last


def rows(run: RunLayout) -> list[Row]:
    """The faults of a finished run, in order of time."""
    found = sorted(_faults(run), key=lambda row: row.began_ns)
    ends = [*(row.began_ns for row in found[1:]), 2**63 - 1]
    made: dict[tuple[int, str, int, int], int] = {}
    for _, recorded in read_applications(run):
        event = recorded.event
        if event["event"] == "deliver":
            made[event["node"], event["app"], event["source"], event["seq"]] = event["t_ns"]
    history = read_history(run)
    for _, answer in read_oracle(run):
        row = next(
            (row for row, end in zip(found, ends, strict=True) if row.began_ns <= answer["sent_ns"] < end),
            None,
        )
        if row is None or not answer["expected"]:
            continue
        row.decided += answer["decided"] and answer["sent_ns"] > row.ended_ns
        timeline = history.timelines[Application(answer["node"], answer["app"])]
        until_ns = max(answer["sent_ns"], row.ended_ns) + _WINDOW_NS
        if len(timeline.possible(answer["sent_ns"] - _WINDOW_NS, until_ns)) > 1:
            continue
        row.expected += 1
        at_ns = made.get((answer["node"], answer["app"], answer["source"], answer["seq"]))
        if at_ns is None:
            row.lost += 1
            row.back_s = max(row.back_s, (answer["sent_ns"] - row.ended_ns) / _NS)
        else:
            row.delay_s = max(row.delay_s, (at_ns - answer["sent_ns"]) / _NS)
    return found
