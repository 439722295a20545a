"""The changes of evidence that docs/reference/mutations.csv names, and how a run is held against a row of it.

Tests of the accounting make the changes in simulations, tests of the emulation in emulations.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from captures.accounting.verdict import HOLDS
from captures.rundir import RunLayout
from tests.support.evidence import (
    CONTENT,
    Captured,
    Change,
    OfRecord,
    add,
    alter,
    copy_of,
    document,
    drop,
    every_frame,
    flipped,
    frames,
    judged,
    one_frame,
    put,
    replayed,
    truncated,
    without,
)
from tests.support.paths import DOCS

#: The runs: emulations of the three services, and simulations.
MESSAGES, PRIVATE, ATTENTION = EMULATED = ("messages", "private", "attention")
SIMULATED, SIMULATED_ATTENTION = SIMULATIONS = ("simulated", "simulated attention")
#: Names of several runs. The private emulation has the same files as that with messages, with the same
#: meaning but for contents.
_GROUPS = {
    "all": (MESSAGES, ATTENTION, *SIMULATIONS),
    "emulations": (MESSAGES, ATTENTION),
    "simulations": SIMULATIONS,
    "messaging": (MESSAGES, PRIVATE, SIMULATED),
    "plain": (MESSAGES, SIMULATED),
    "pulled": (ATTENTION, SIMULATED_ATTENTION),
}
#: In place of a verdict: no change of the file can give one.
NO_EVIDENCE = "no evidence"
_REPLAY = " (replay)"


@dataclass(frozen=True)
class Mutation:
    """A row of the table: a change of one piece of evidence.

    Attributes:
        file: the first name of the file in a run folder.
        change: in words.
        runs: the runs in which it is made, or names of several.
        verdict: that of `cbcb account`, or with "(replay)" that of `cbcb replay`; "refused", in place of an
            accounting; "not noticed"; `NO_EVIDENCE`.
        reason: a reason of the verdict, where an ellipsis is for any text; why there is none.
    """

    file: str
    change: str
    runs: str
    verdict: str
    reason: str

    def names(self, reason: str) -> bool:
        """Whether a reason is the one that the mutation must give."""
        return re.search(".*".join(map(re.escape, self.reason.split("…"))), reason, re.DOTALL) is not None

    def in_runs(self) -> Iterator[str]:
        """Yields the names of the single runs."""
        for name in self.runs.split(", "):
            yield from _GROUPS.get(name, (name,))

    def made(self) -> Change:
        """Returns what makes the change in a copy of a run folder."""
        path = self.file.replace("<n>", "2")
        if self.change == "it is gone":
            return without(path)
        if self.change == "it is empty":
            return _as(path, "{}\n" if path.endswith(".json") else "")
        return CHANGES[self.file][self.change]


def _as(path: str, content: str) -> Change:
    """Writes a file."""
    return lambda run: put(run.path / path, content)


def _set(**fields: Any) -> OfRecord:
    return lambda record: record.update(fields)


def _plus(name: str, number: float) -> OfRecord:
    return lambda record: record.update({name: record[name] + number})


def _counters(*names: str) -> dict[str, Change]:
    """Adds 1 to a counter of the first router that has counted something by that name."""

    def change(name: str) -> Change:
        def edit(found: dict[str, Any]) -> None:
            own = next((each for each in found.values() if each[name]), found["1"])
            own[name] += 1

        return document(_ROUTERS, edit)

    return {f"`{name}` is another": change(name) for name in names}


def _frames_counter(way: str) -> Change:
    def edit(found: dict[str, Any]) -> None:
        counted = found["1"][way]
        counted[next(kind for kind in CONTENT if kind in counted)] += 1

    return document(_ROUTERS, edit)


def _of_router(edit: OfRecord) -> Change:
    return document(_ROUTERS, lambda found: edit(found["1"]))


def _frames_alone(found: dict[str, Any]) -> None:
    for name in found.keys() - {"frames_sent", "frames_received"}:
        del found[name]


def _ports(names: Sequence[str], end: str, port: str = "65000") -> dict[str, Change]:
    """Adds 1 to a counter of a port."""

    def change(name: str) -> Change:
        return document(_SWITCHES, lambda found: _plus(name, 1)(found["1"][port]))

    return {f"`{name}` of a port{end} is another": change(name) for name in names}


def _capture(edit: OfRecord) -> Change:
    """Changes the entry of the first link with frames in the list of captures."""
    return document("capture.json", lambda found: edit(next(filter(_used, found))))


def _used(entry: Mapping[str, Any]) -> bool:
    return bool(entry["kind"] == "link" and entry["captured"])


def _without_lag(part: str) -> Change:
    def edit(found: dict[str, Any]) -> None:
        found["parts"] = [each for each in found["parts"] if each["part"] != part]

    return document("lag.json", edit)


def _log(make: OfRecord, event: str, **fields: Any) -> Change:
    """Changes the first record of an event of applications."""
    return alter(_LOGS, make, event=event, **fields)


def _window(run: RunLayout) -> None:
    chosen = re.sub("in_flight_window_s = .*", "in_flight_window_s = 1000.0", run.experiment.read_text())
    put(run.experiment, chosen)


def _later(by_ns: int) -> Callable[[int, bytes], Captured]:
    return lambda time_ns, data: (time_ns + by_ns, data)


def _lost(held: Sequence[Captured], at: int) -> list[Captured]:
    return [*held[:at], *held[at + 1 :]]


def _twice(held: Sequence[Captured], at: int) -> list[Captured]:
    return [*held[: at + 1], *held[at:]]


_LOGS, _SERVICE = "logs/applications/*.jsonl", "logs/service/*.jsonl"
_CONTROLLER, _TABLES = "logs/controller.jsonl", "logs/tables.json"
_ROUTERS, _SWITCHES, _DROPS = "counters/routers.json", "counters/ovs.json", "counters/drops.json"
_LINKS, _HOSTS, _CAPTURES = "pcap/link-*.pcap", "pcap/host-*.pcap", "pcap/*.pcap"
_HOUR_NS = 3_600_000_000_000
#: Offsets in the header of a frame.
_VERSION, _HOP_LIMIT, _ISSUER, _SEQ, _EPOCH = 0, 3, 7, 8, 19
_LOSSY = '{"time_ns": 1, "at_s": 1.0, "command": "link 0 1 set", "lossy_link": 0}\n'
_FAULT = '{"t_ns": 1, "at_s": 3.5, "what": "lost", "part": "router", "node": 1, "why": "it ended"}\n'

#: File -> change, but that the file is gone or empty -> what makes it.
CHANGES: Mapping[str, Mapping[str, Change]] = {
    "experiment.toml": {"the oracle's window is 1,000 s": _window},
    "topology.json": {
        "a link is missing": document("topology.json", lambda found: found["links"].pop()),
        "the cost of a link is another": document(
            "topology.json", lambda found: found["links"][0].update(cost=9)
        ),
    },
    "workload.jsonl": {
        "a request to send is missing": drop("workload.jsonl", action="send_message"),
        "a request to publish is missing": drop("workload.jsonl", action="publish"),
    },
    "manifest.json": {
        "an emulation calls itself a simulation": document("manifest.json", _set(datapath="simulated")),
        "the list of evidence is empty": document("manifest.json", _set(evidence=[])),
        "the digests of the inputs are missing": document("manifest.json", _set(inputs={})),
        "the seed is another": document("manifest.json", _plus("seed", 1)),
    },
    "clock.jsonl": {
        "the rate is another": alter("clock.jsonl", _plus("rate", 1.0), experiment_s=0.0),
        "all pieces are an hour earlier": alter("clock.jsonl", _plus("t_ns", -_HOUR_NS), every=True),
        "second 0 is an hour later": alter("clock.jsonl", _plus("t_ns", _HOUR_NS), experiment_s=0.0),
    },
    "pcap/link-<u>-<v>.pcap": {
        "that of a link is gone": without(_LINKS, every=False),
        "one is cut short": truncated(_LINKS, 5),
        "a message on a link is missing": frames(_LINKS, _lost),
        "a message of a router is missing": frames(_HOSTS, _lost),
        "a message on a link is there twice": frames(_LINKS, _twice),
        "a frame has another source address": one_frame(_LINKS, lambda data: flipped(data, -3)),
        "a frame has another version": one_frame(_LINKS, lambda data: flipped(data, _VERSION)),
        "a message has another issuer": one_frame(_LINKS, lambda data: flipped(data, _ISSUER)),
        "a frame of a publication has another number": one_frame(_LINKS, lambda data: flipped(data, _SEQ)),
        "a message is of another epoch": one_frame(_LINKS, lambda data: flipped(data, _EPOCH)),
        "a publication is of another epoch": one_frame(_LINKS, lambda data: flipped(data, _EPOCH)),
        "a message has another hop limit": one_frame(_LINKS, lambda data: flipped(data, _HOP_LIMIT)),
        "a byte of a message differs on a link": one_frame(_LINKS, flipped),
        "a byte of a message differs at a router": one_frame(_HOSTS, flipped),
        "a byte of an RA differs on a link": one_frame(_LINKS, flipped, ("RA",)),
        "all times are an hour later": every_frame(_CAPTURES, _later(_HOUR_NS)),
        "all times are 3 s later": every_frame(_CAPTURES, _later(3 * 10**9)),
    },
    "capture.json": {
        "a link is missing": document("capture.json", lambda found: found.remove(next(filter(_used, found)))),
        "a capture is of another link": _capture(_set(u=3, v=4)),
        "`captured` is another": _capture(_set(captured=99)),
        "`received_by_filter` is another": _capture(_set(received_by_filter=99)),
        "`dropped_by_kernel` is 3": _capture(_set(dropped_by_kernel=3)),
    },
    "logs/applications/r<n>.jsonl": {
        "all are gone": without(_LOGS),
        "node 2, which only receives, has no records": drop(_LOGS, every=True, node=2),
        "a `send_message` is missing": drop(_LOGS, event="send_message", node=1),
        "each `send_message` of a node has other attributes": alter(
            _LOGS, _set(attributes={"other": 1}), every=True, event="send_message", node=1
        ),
        "a message that nobody needs has other attributes": _log(
            _set(attributes={"other": 1}), "send_message", node=1
        ),
        "a `deliver` is missing": drop(_LOGS, event="deliver"),
        "a `deliver` is there twice": add(_LOGS, dict, event="deliver"),
        "a `deliver` is at another node": _log(
            lambda each: each.update(node=(each["node"] + 1) % 5), "deliver"
        ),
        "a `deliver` is before its message": _log(_plus("t_ns", -_HOUR_NS), "deliver"),
        "each `deliver` of a node is an hour later": alter(
            _LOGS, _plus("t_ns", _HOUR_NS), every=True, event="deliver"
        ),
        "each `send_message` of a node was requested in 1970": alter(
            _LOGS, _set(requested_ns=0), every=True, event="send_message"
        ),
        "a `set_predicate` was requested an hour later": _log(
            _plus("requested_ns", _HOUR_NS), "set_predicate"
        ),
        "a `set_predicate` is missing": drop(_LOGS, event="set_predicate", node=1),
        "a `set_predicate` has a predicate that nothing matches": _log(
            _set(predicate="zz = 1"), "set_predicate", node=1
        ),
        "a `set_predicate` has a wider predicate": _log(
            _set(predicate='class = "alert" or volume any integer'), "set_predicate", node=2
        ),
        "a `discard` is missing": drop(_LOGS, event="discard"),
        "a `discard` has another cause": _log(_set(cause="stale"), "discard"),
    },
    "logs/commands.jsonl": {
        "a command that makes a link lose frames is added": _as("logs/commands.jsonl", _LOSSY)
    },
    "logs/faults.jsonl": {"the loss of a router is added": _as("logs/faults.jsonl", _FAULT)},
    "logs/service/r<n>.jsonl": {
        "all are gone": without(_SERVICE),
        "an `upload` is missing": drop(_SERVICE, event="upload"),
        "a `deliver` is missing": drop(_SERVICE, event="deliver"),
        "a `deliver` is there twice": add(_SERVICE, dict, event="deliver"),
        "a `register` is missing": drop(_SERVICE, event="register"),
        "a `register` has a greater `max`": alter(_SERVICE, _set(max=5), event="register"),
        "the `outcome` of satisfied subscriptions is another": alter(
            _SERVICE, _set(outcome="expired"), event="outcome", outcome="satisfied"
        ),
    },
    _CONTROLLER: {
        "`committed` is missing": drop(_CONTROLLER, event="committed"),
        "each `table_acknowledged` is missing": drop(_CONTROLLER, every=True, event="table_acknowledged"),
        "a `hello` is missing": drop(_CONTROLLER, event="hello"),
        "`epoch_started` is missing": drop(_CONTROLLER, event="epoch_started"),
        "an epoch that was not committed is added": add(
            _CONTROLLER,
            lambda each: {**each, "epoch": 2, "t_ns": each["t_ns"] + 10**9},
            event="epoch_started",
        ),
        "a counter of frames is another": alter(
            _CONTROLLER, lambda each: each["frames_sent"].update(TABLE=9), event="counters"
        ),
    },
    _TABLES: {
        "a router is missing": document(_TABLES, lambda found: found.pop("1")),
        "a row is missing": document(_TABLES, lambda found: found["1"].pop()),
        "a row has another predicate": document(
            _TABLES, lambda found: found["1"][0].update(predicate="x = 1")
        ),
    },
    "logs/routers/r<n>.log": {
        "a counter is another": document("logs/routers/r1.counters.json", _plus("messages_sent", 1))
    },
    "recordings/r<n>.rec": {"one is cut short": truncated("recordings/*.rec", 50)},
    _ROUTERS: {
        "a router is missing": document(_ROUTERS, lambda found: found.pop("1")),
        "a router has counters of frames alone": _of_router(_frames_alone),
        "`messages_delivered` is missing": _of_router(lambda each: each.pop("messages_delivered")),
        "`frames_sent` is another": _frames_counter("frames_sent"),
        "`frames_received` is another": _frames_counter("frames_received"),
        "`dropped` has a frame more": _of_router(lambda each: each["dropped"].update(no_tree=1)),
        **_counters("messages_sent", "messages_delivered", "messages_received", "messages_forwarded"),
        **_counters("messages_unwanted", "messages_unmatched", "bytes_sent", "bytes_received"),
        **_counters("socket_drops", "records_lost", "predicates_widened", "custody_lost"),
        **_counters("ras_issued", "ras_received", "ras_forwarded", "srs_issued", "urs_applied"),
        **_counters("publications_uploaded", "publications_delivered", "pubs_issued", "pubs_received"),
        **_counters("pubs_forwarded", "subs_issued", "subs_received", "subs_forwarded"),
        **_counters("rounds_begun", "rounds_satisfied"),
    },
    _SWITCHES: {
        "a switch is missing": document(_SWITCHES, lambda found: found.pop("1")),
        "`tx_dropped` of a port is missing": document(
            _SWITCHES, lambda found: found["1"]["1"].pop("tx_dropped")
        ),
        **_ports(("rx_bytes", "tx_bytes"), ""),
        **_ports(("rx_packets", "tx_packets", "rx_dropped", "tx_dropped"), " to a router"),
        **_ports(("rx_packets", "tx_packets", "tx_dropped"), " to a neighbour", "1"),
    },
    _DROPS: {
        "a switch is missing": document(_DROPS, lambda found: found.pop("1")),
        "`no_room` is missing": document(_DROPS, lambda found: found["1"].pop("no_room", None)),
        "a switch had no room for a frame": document(_DROPS, lambda found: found["1"].update(no_room=1)),
    },
    "lag.json": {
        "a router was late": document("lag.json", lambda found: found["parts"][0].update(lag_s=99.0)),
        "the lag of a router is missing": document("lag.json", lambda found: found["parts"].pop(0)),
        **{
            f"the lag of the {part} is missing": _without_lag(part)
            for part in ("captures", "switches", "workload")
        },
        "the bound is another": document("lag.json", _set(bound_s=1e6)),
    },
}

_TABLE = DOCS / "reference/mutations.csv"
#: The rows of the table, in its order.
MUTATIONS = tuple(Mutation(**row) for row in csv.DictReader(_TABLE.read_text(encoding="utf-8").splitlines()))


def of_runs(names: Sequence[str]) -> list[Any]:
    """Name of a run and mutation, as parameters of a test."""
    return [
        pytest.param(name, each, id=f"{name}, {each.file}: {each.change}")
        for each in MUTATIONS
        if each.verdict != NO_EVIDENCE
        for name in names
        if name in each.in_runs()
    ]


def noticed(mutation: Mutation, run_dir: Path, folder: Path) -> None:
    """Asserts that a copy of a run with the mutation, made in `folder`, has its verdict for its reason."""
    run = copy_of(run_dir, folder)
    mutation.made()(run)
    verdict, reasons = (replayed if mutation.verdict.endswith(_REPLAY) else judged)(run)
    expected = mutation.verdict.removesuffix(_REPLAY).replace("not noticed", HOLDS)
    assert verdict == expected, reasons
    assert verdict == HOLDS or any(map(mutation.names, reasons)), reasons
