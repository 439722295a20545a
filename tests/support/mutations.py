"""The catalogue of mutations: changes of one piece of evidence of a run, and the reasons that they give.

`python -m tests.support.mutations` writes docs/reference/mutations.csv from it. Tests of the accounting make
the changes in simulations, tests of the emulation in emulations.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from captures.accounting.verdict import FAILS, HOLDS, INVALID
from captures.rundir import (
    RunLayout,
    applications,
    capture_list,
    clock,
    controller,
    document as run_files,
    faults,
    inputs,
    measures,
    oracle,
    routing_tables,
    summary,
)
from captures.rundir.document import names_of
from captures.rundir.files import RunFile
from tests.support.evidence import (
    CONTENT,
    REFUSED,
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
MESSAGING = (MESSAGES, PRIVATE, SIMULATED)
PLAIN = (MESSAGES, SIMULATED)
PULLED = (ATTENTION, SIMULATED_ATTENTION)
#: Those whose contents are no secret.
READABLE = (*PLAIN, *PULLED)
#: The private emulation has the same files as that with messages, with the same meaning but for contents.
SERVICES = (MESSAGES, ATTENTION)
ALL = (*SERVICES, *SIMULATIONS)
Runs = tuple[str, ...]


@dataclass(frozen=True)
class Mutation:
    """A change of one piece of evidence.

    Attributes:
        name: the change, in words.
        change: makes it in a copy of a run folder.
        verdict: `FAILS`, `INVALID` or `REFUSED`; `HOLDS`: it cannot be noticed.
        named: a reason of the verdict, where an ellipsis is for any text; of `HOLDS`: why.
        runs: the runs in which it is made.
        by: returns verdict and reasons; `cbcb account` by default.
    """

    name: str
    change: Change
    verdict: str
    named: str
    runs: Runs = ALL
    by: Callable[[RunLayout], tuple[str, list[str]]] = judged

    def names(self, reason: str) -> bool:
        """Whether a reason is the one that the mutation must give."""
        return re.search(".*".join(map(re.escape, self.named.split("…"))), reason, re.DOTALL) is not None


def _fails(name: str, change: Change, named: str, runs: Runs = ALL) -> Mutation:
    return Mutation(name, change, FAILS, named, runs)


def _refused(name: str, change: Change, named: str, runs: Runs = ALL) -> Mutation:
    return Mutation(name, change, REFUSED, named, runs)


def _unnoticed(name: str, change: Change, why: str, runs: Runs = ALL) -> Mutation:
    return Mutation(name, change, HOLDS, why, runs)


def _gone(path: str, runs: Runs = ALL) -> Mutation:
    """A file of which the accounting misses that it is gone."""
    return _fails("it is gone", without(path), f"evidence is missing: {path}", runs)


def _emptied(path: str, content: str, named: str, runs: Runs = ALL) -> Mutation:
    """A file of which the accounting misses what was in it."""
    return _fails("it is empty", _as(path, content), f"evidence is missing: {path}{named}", runs)


def _needed(path: str) -> Mutation:
    """A file without which there is no accounting."""
    return _refused("it is gone", without(path), f"{path}: …")


def _as(path: str, content: str) -> Change:
    """Writes a file."""
    return lambda run: put(run.path / path, content)


def _set(**fields: Any) -> OfRecord:
    return lambda record: record.update(fields)


def _plus(name: str, number: float) -> OfRecord:
    return lambda record: record.update({name: record[name] + number})


def _counter(name: str) -> Change:
    """Adds 1 to a counter of the first router that has counted something by that name."""

    def edit(found: dict[str, Any]) -> None:
        own = next((each for each in found.values() if each[name]), found["1"])
        own[name] += 1

    return document(_ROUTERS, edit)


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


def _of_port(name: str, port: str = "65000") -> Change:
    return document(_SWITCHES, lambda found: _plus(name, 1)(found["1"][port]))


def _capture(edit: OfRecord) -> Change:
    """Changes the entry of the first link with frames in the list of captures."""
    return document("capture.json", lambda found: edit(next(filter(_used, found))))


def _used(entry: Mapping[str, Any]) -> bool:
    return bool(entry["kind"] == "link" and entry["captured"])


def _without_lag(part: str) -> Change:
    def edit(found: dict[str, Any]) -> None:
        found["parts"] = [each for each in found["parts"] if each["part"] != part]

    return document("lag.json", edit)


def _log(make: Callable[[Any], object], event: str, **fields: Any) -> Change:
    """Changes the first record of an event of applications."""
    return alter(_LOGS, make, event=event, **fields)


def _served(make: Callable[[Any], object], event: str, **fields: Any) -> Change:
    """Changes the first record of an event of the attention-limited service."""
    return alter(_SERVICE, make, event=event, **fields)


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
_RA = ("RA",)
#: Offsets in the header of a frame.
_VERSION, _HOP_LIMIT, _ISSUER, _SEQ, _EPOCH = 0, 3, 7, 8, 19
_OVS = "ovs and the captures differ in …: switch … port …: …"
_OF_ROUTERS = "routers and the captures differ in … numbers; first: router …: …"
_RECORDS = "records of applications and counters or captures differ in …"
_APPLICATIONS = f"{_RECORDS} numbers; first: router …: messages sent: …"
_FILES = "capture files and their own counters differ in … numbers; first: link-…"
_OUTSIDE = "… of node …: not in the time of the run, or before its request"
_CHANGED = "evidence contradicts itself: …: not the file with which the run began"
_CONTENTS = "message …: different contents in its record and captured frames"
_UNRECORDED = "captured messages that no router recorded as sent by an application"
_MISSED = "expected deliveries missed after convergence"
_SPURIOUS = "1 deliveries that nobody asked for"
_BREAKS = "deliveries to subscriptions break the rule `{}`"
_LOSSY = '{"time_ns": 1, "at_s": 1.0, "command": "link 0 1 set", "lossy_link": 0}\n'
_FAULT = '{"t_ns": 1, "at_s": 3.5, "what": "lost", "part": "router", "node": 1, "why": "it ended"}\n'

#: Runs -> counters of routers that are compared with frames or records there.
_COMPARED = {
    PLAIN: (
        *("messages_delivered", "messages_received", "messages_forwarded", "bytes_sent", "bytes_received"),
        *("ras_issued", "ras_received", "ras_forwarded"),
    ),
    PULLED: (
        *(
            "publications_uploaded",
            "publications_delivered",
            "pubs_issued",
            "pubs_received",
            "pubs_forwarded",
        ),
        *("subs_issued", "subs_received", "subs_forwarded", "rounds_begun", "rounds_satisfied"),
    ),
}

# fmt: off
#: File -> the mutations of it.
CATALOGUE: dict[RunFile, Sequence[Mutation]] = {
    run_files.EXPERIMENT: (
        _needed("experiment.toml"),
        _fails("the oracle's window is 1,000 s", _window, "none of … expected deliveries is decided",
            MESSAGING),
    ),
    inputs.TOPOLOGY: (
        _needed("topology.json"),
        _refused("a link is missing", document("topology.json", lambda found: found["links"].pop()),
            "expected a link of the topology or a host"),
        _fails("the cost of a link is another",
            document("topology.json", lambda found: found["links"][0].update(cost=9)), _CHANGED),
    ),
    inputs.WORKLOAD: (
        _gone("workload.jsonl"),
        _fails("a request to send is missing", drop("workload.jsonl", action="send_message"), _CHANGED,
            MESSAGING),
        _fails("a request to publish is missing", drop("workload.jsonl", action="publish"), _CHANGED, PULLED),
    ),
    inputs.MANIFEST: (
        _needed("manifest.json"),
        _unnoticed("an emulation calls itself a simulation",
            document("manifest.json", _set(datapath="simulated")),
            "No number rests on it: the manifest lists the evidence.", SERVICES),
        _unnoticed("the list of evidence is empty", document("manifest.json", _set(evidence=[])),
            "No other file says what the run must leave."),
        _unnoticed("the digests of the inputs are missing", document("manifest.json", _set(inputs={})),
            "No other file has them."),
        _unnoticed("the seed is another", document("manifest.json", _plus("seed", 1)),
            "No number rests on it: it repeats experiment.toml."),
    ),
    clock.CLOCK: (
        _needed("clock.jsonl"),
        _refused("it is empty", _as("clock.jsonl", ""), "clock.jsonl: …"),
        _fails("the rate is another", alter("clock.jsonl", _plus("rate", 1.0), experiment_s=0.0),
            "clock.jsonl: rates … in place of …"),
        _fails("all pieces are an hour earlier",
            alter("clock.jsonl", lambda each: each.update(t_ns=each["t_ns"] - _HOUR_NS), every=True),
            "clock.jsonl: the clock began at another time than the run"),
        _fails("second 0 is an hour later", alter("clock.jsonl", _plus("t_ns", _HOUR_NS), experiment_s=0.0),
            "clock.jsonl: second … is second … of the piece before"),
    ),
    capture_list.CAPTURE_FILES: (
        _refused("that of a link is gone", without(_LINKS, every=False), "pcap/link-…: missing"),
        _fails("one is cut short", truncated(_LINKS, 5), "capture cut short: link-"),
        _fails("a message on a link is missing", frames(_LINKS, _lost), _OVS),
        _fails("a message of a router is missing", frames(_HOSTS, _lost), _OF_ROUTERS),
        _fails("a message on a link is there twice", frames(_LINKS, _twice),
            "MSG frames that crossed a link twice", MESSAGING),
        _fails("a frame has another source address", one_frame(_LINKS, lambda data: flipped(data, -3)), _OVS),
        _fails("a frame has another version", one_frame(_LINKS, lambda data: flipped(data, _VERSION)),
            "1 captured frames that do not decode"),
        _fails("a message has another issuer", one_frame(_LINKS, lambda data: flipped(data, _ISSUER)),
            _UNRECORDED, MESSAGING),
        _unnoticed("a frame of a publication has another number",
            one_frame(_LINKS, lambda data: flipped(data, _SEQ)),
            "Each router numbers its frames, and records the number of the publication alone.", PULLED),
        _fails("a message is of another epoch", one_frame(_LINKS, lambda data: flipped(data, _EPOCH)),
            "message …: different epochs in its captured frames", MESSAGING),
        _unnoticed("a publication is of another epoch", one_frame(_LINKS, lambda data: flipped(data, _EPOCH)),
            "A publication may cross links in several epochs.", PULLED),
        _unnoticed("a message has another hop limit",
            one_frame(_LINKS, lambda data: flipped(data, _HOP_LIMIT)),
            "Each router changes it, and records no value."),
        _fails("a byte of a message differs on a link", one_frame(_LINKS, flipped), _CONTENTS, READABLE),
        _fails("a byte of a message differs at a router", one_frame(_HOSTS, flipped), _CONTENTS, READABLE),
        _unnoticed("a byte of a message differs on a link", one_frame(_LINKS, flipped),
            "Encoded bodies of different hops are not compared; members discard what was altered.",
            (PRIVATE,)),
        _unnoticed("a byte of an RA differs on a link", one_frame(_LINKS, flipped, _RA),
            "Routers change RAs on their way; `cbcb replay` compares what each router got and sent.", PLAIN),
        _fails("all times are an hour later", every_frame(_CAPTURES, _later(_HOUR_NS)),
            "capture …: frames … s after the run ended"),
        _fails("all times are 3 s later", every_frame(_CAPTURES, _later(3 * 10**9)),
            "message …: delivered … s before it was captured"),
    ),
    capture_list.CAPTURES: (
        _needed("capture.json"),
        _fails("a link is missing",
            document("capture.json", lambda found: found.remove(next(filter(_used, found)))),
            "1 links without a capture; first: …", SERVICES),
        _fails("a capture is of another link", _capture(_set(u=3, v=4)), "captured frames that do not decode",
            SERVICES),
        _fails("`captured` is another", _capture(_set(captured=99)),
            f"{_FILES}: in the file: expected 99, …"),
        _fails("`received_by_filter` is another", _capture(_set(received_by_filter=99)),
            f"{_FILES}: received and not dropped: expected 99, …"),
        Mutation("`dropped_by_kernel` is 3", _capture(_set(dropped_by_kernel=3)), INVALID,
            "captures: 3 frames dropped before they were read"),
    ),
    applications.APPLICATIONS: (
        _gone("logs/applications/r2.jsonl", SERVICES),
        _fails("all are gone", without(_LOGS), _UNRECORDED, MESSAGING),
        _fails("all are gone", without(_LOGS), "evidence is missing: logs/applications/…", PULLED),
        _fails("node 2, which only receives, has no records", drop(_LOGS, every=True, node=2),
            "router 2: messages delivered: expected 2, found 0", PLAIN),
        _fails("a `send_message` is missing", drop(_LOGS, event="send_message", node=1), _APPLICATIONS,
            MESSAGING),
        _fails("each `send_message` of a node has other attributes",
            alter(_LOGS, _set(attributes={"other": 1}), every=True, event="send_message", node=1), _CONTENTS,
            PLAIN),
        _unnoticed("a message that nobody needs has other attributes",
            _log(_set(attributes={"other": 1}), "send_message", node=1),
            "No frame has a message that matches no predicate.", PLAIN),
        _fails("a `deliver` is missing", drop(_LOGS, event="deliver"), _MISSED, MESSAGING),
        _fails("a `deliver` is there twice", add(_LOGS, dict, event="deliver"),
            "1 deliveries made more than once", MESSAGING),
        _fails("a `deliver` is at another node",
            _log(lambda each: each.update(node=(each["node"] + 1) % 5), "deliver"), _SPURIOUS, MESSAGING),
        _fails("a `deliver` is before its message", _log(_plus("t_ns", -_HOUR_NS), "deliver"),
            "message …: delivered 3.6e+03 s before it was sent", MESSAGING),
        _fails("each `deliver` of a node is an hour later",
            alter(_LOGS, _plus("t_ns", _HOUR_NS), every=True, event="deliver"), _OUTSIDE, MESSAGING),
        _fails("each `send_message` of a node was requested in 1970",
            alter(_LOGS, _set(requested_ns=0), every=True, event="send_message"), _OUTSIDE, MESSAGING),
        _fails("a `set_predicate` was requested an hour later",
            _log(_plus("requested_ns", _HOUR_NS), "set_predicate"), _OUTSIDE, PLAIN),
        _fails("a `set_predicate` is missing", drop(_LOGS, event="set_predicate", node=1),
            "deliveries that nobody asked for", MESSAGING),
        _fails("a `set_predicate` has a predicate that nothing matches",
            _log(_set(predicate="zz = 1"), "set_predicate", node=1),
            "router 1: requests for the predicate …: expected 1, found 0", PLAIN),
        _fails("a `set_predicate` has a wider predicate",
            _log(_set(predicate='class = "alert" or volume any integer'), "set_predicate", node=2), _MISSED,
            MESSAGING),
        _fails("a `discard` is missing", drop(_LOGS, event="discard"),
            "router …: messages delivered: expected …, found …", (PRIVATE,)),
        _unnoticed("a `discard` has another cause", _log(_set(cause="stale"), "discard"),
            "The member alone knows why it discarded a message.", (PRIVATE,)),
    ),
    faults.COMMANDS: (
        _gone("logs/commands.jsonl", SERVICES),
        _unnoticed("a command that makes a link lose frames is added", _as("logs/commands.jsonl", _LOSSY),
            "No other file has the commands of the user. Such a link is not compared with switches."),
    ),
    faults.FAULTS: (
        _gone("logs/faults.jsonl", SERVICES),
        _fails("the loss of a router is added", _as("logs/faults.jsonl", _FAULT),
            "the run ended at 3.5 s: it ended"),
    ),
    applications.SERVICE: (
        _gone("logs/service/r2.jsonl", (ATTENTION,)),
        _fails("all are gone", without(_SERVICE), "evidence is missing: logs/service/…", PULLED),
        _fails("an `upload` is missing", drop(_SERVICE, event="upload"), _BREAKS.format("unrecorded"),
            PULLED),
        _fails("a `deliver` is missing", drop(_SERVICE, event="deliver"),
            "router …: publications delivered: expected …, found …", PULLED),
        _fails("a `deliver` is there twice", add(_SERVICE, dict, event="deliver"), _BREAKS.format("…"),
            PULLED),
        _fails("a `register` is missing", drop(_SERVICE, event="register"), _BREAKS.format("…"), PULLED),
        _unnoticed("a `register` has a greater `max`", _served(_set(max=5), "register"),
            "A round may end before it is full.", PULLED),
        _fails("the `outcome` of satisfied subscriptions is another",
            _served(_set(outcome="expired"), "outcome", outcome="satisfied"),
            "router …: rounds of subscriptions satisfied: expected 1, found 0", PULLED),
    ),
    controller.CONTROLLER: (
        _gone(_CONTROLLER),
        _emptied(_CONTROLLER, "", ": no epoch was committed"),
        _fails("`committed` is missing", drop(_CONTROLLER, event="committed"),
            "controller.jsonl: epoch 1 was acknowledged by all, and never committed"),
        _fails("each `table_acknowledged` is missing",
            drop(_CONTROLLER, every=True, event="table_acknowledged"),
            "controller.jsonl: epoch 1 was committed, and never acknowledged"),
        _fails("a `hello` is missing", drop(_CONTROLLER, event="hello"),
            "controller.jsonl: node … acknowledged a table, and never reported"),
        _fails("`epoch_started` is missing", drop(_CONTROLLER, event="epoch_started"),
            "controller.jsonl: epoch 1 was acknowledged, and never started"),
        _unnoticed("an epoch that was not committed is added",
            add(_CONTROLLER, lambda each: {**each, "epoch": 2, "t_ns": each["t_ns"] + 10**9},
            event="epoch_started"), "An epoch may start when the run ends."),
        _unnoticed("a counter of frames is another",
            alter(_CONTROLLER, lambda each: each["frames_sent"].update(TABLE=9), event="counters"),
            "Nobody else counts frames between the controller and switches.", SERVICES),
    ),
    routing_tables.ROUTING_TABLES: (
        _gone(_TABLES),
        _emptied(_TABLES, "{}\n", " is empty"),
        _fails("a router is missing", document(_TABLES, lambda found: found.pop("1")),
            f"evidence is missing: {_TABLES}: node 1"),
        Mutation("a row is missing", document(_TABLES, lambda found: found["1"].pop()), FAILS,
            "r1: interface …: the table at the end is another", (MESSAGES,), replayed),
        Mutation("a row has another predicate",
            document(_TABLES, lambda found: found["1"][0].update(predicate="x = 1")), FAILS,
            "r1: interface …: the table at the end is another", (MESSAGES,), replayed),
    ),
    run_files.ROUTERS: (
        _unnoticed("a counter is another",
            document("logs/routers/r1.counters.json", _plus("messages_sent", 1)),
            "Nobody reads it after the run: counters/routers.json has the counters.", SERVICES),
    ),
    run_files.RECORDINGS: (
        _gone("recordings/r2.rec", SERVICES),
        _emptied("recordings/r2.rec", "", " is empty", SERVICES),
        Mutation("one is cut short", truncated("recordings/*.rec", 50), FAILS, "are beyond the recording",
            SERVICES, replayed),
    ),
    measures.ROUTERS: (
        _needed(_ROUTERS),
        _fails("a router is missing", document(_ROUTERS, lambda found: found.pop("1")), "router 1: …"),
        _fails("a router has counters of frames alone", _of_router(_frames_alone),
            f"evidence is missing: {_ROUTERS}: router 1: bytes_received"),
        _fails("`messages_delivered` is missing", _of_router(lambda each: each.pop("messages_delivered")),
            f"evidence is missing: {_ROUTERS}: router 1: messages_delivered"),
        _fails("`frames_sent` is another", _frames_counter("frames_sent"), _OF_ROUTERS),
        _fails("`frames_received` is another", _frames_counter("frames_received"), _OF_ROUTERS),
        _fails("`messages_sent` is another", _counter("messages_sent"), _APPLICATIONS),
        _fails("`socket_drops` is another", _counter("socket_drops"),
            "1 frames dropped at the routers' sockets"),
        _fails("`records_lost` is another", _counter("records_lost"),
            "1 records of applications that routers could not write"),
        *(_fails(f"`{name}` is another", _counter(name),
            f"router …: …{name.split('_')[-1]}…: expected …, found …", runs) for runs,
            names in _COMPARED.items() for name in names),
        _fails("`messages_unwanted` is another", _counter("messages_unwanted"),
            "all routers: messages_unwanted: expected …, found …", PLAIN),
        Mutation("`messages_unmatched` is another", _counter("messages_unmatched"), FAILS,
            "r…: messages_unmatched: live …, replayed …", SERVICES, replayed),
        _unnoticed("`dropped` has a frame more", _of_router(lambda each: each["dropped"].update(no_tree=1)),
            "No other evidence says why a router took no notice of a frame.", SIMULATIONS),
        Mutation("`dropped` has a frame more", _of_router(lambda each: each["dropped"].update(no_tree=1)),
            FAILS, "r1: dropped …: live …, replayed …", SERVICES, replayed),
        *(Mutation(f"`{name}` is another", _counter(name), FAILS, f"r…: {name}: live …, replayed …", SERVICES,
            replayed) for name in ("srs_issued", "urs_applied", "predicates_widened", "custody_lost")),
    ),
    measures.SWITCHES: (
        _needed(_SWITCHES),
        _fails("a switch is missing", document(_SWITCHES, lambda found: found.pop("1")), _OVS),
        _fails("`tx_dropped` of a port is missing",
            document(_SWITCHES, lambda found: found["1"]["1"].pop("tx_dropped")),
            f"evidence is missing: {_SWITCHES}: switch 1: port 1: tx_dropped"),
        *(_fails(f"`{name}` of a port to a {end} is another", _of_port(name, port),
            f"ovs and the captures differ in 1 numbers; first: switch 1 port {port}: …")
            for name in ("rx_packets", "tx_packets") for end,
            port in (("router", "65000"), ("neighbour", "1"))),
        *(_unnoticed(f"`{name}` of a port is another", _of_port(name),
            "Frames are compared at ports, bytes at routers.") for name in ("rx_bytes", "tx_bytes")),
        _fails("`tx_dropped` of a port to a neighbour is another", _of_port("tx_dropped", "1"),
            "switch 1 port 1: …dropped…"),
        *(_unnoticed(f"`{name}` of a port to a router is another", _of_port(name),
            "A frame that is lost there is missing in other counters, which are compared.")
            for name in ("rx_dropped", "tx_dropped")),
    ),
    measures.DROPS: (
        _gone(_DROPS, SERVICES),
        _emptied(_DROPS, "{}\n", " is empty", SERVICES),
        _fails("a switch is missing", document(_DROPS, lambda found: found.pop("1")),
            f"evidence is missing: {_DROPS}: node 1", SERVICES),
        _unnoticed("`no_room` is missing", document(_DROPS, lambda found: found["1"].pop("no_room", None)),
            "The kernel datapath and some containers do not count it.", SERVICES),
        _fails("a switch had no room for a frame",
            document(_DROPS, lambda found: found["1"].update(no_room=1)),
            "1 frames that switches lost: …", SERVICES),
    ),
    measures.LAG: (
        Mutation("it is gone", without("lag.json"), INVALID, "lag.json is missing", SERVICES),
        Mutation("a router was late",
            document("lag.json", lambda found: found["parts"][0].update(lag_s=99.0)), INVALID,
            "routers (first of all that of node 0): 99 s of experiment time late", SERVICES),
        _fails("the lag of a router is missing", document("lag.json", lambda found: found["parts"].pop(0)),
            "lag.json: no lag of router 0", SERVICES),
        *(_fails(f"the lag of the {part} is missing", _without_lag(part), f"lag.json: no lag of {part}",
            (MESSAGES,)) for part in ("captures", "switches", "workload")),
        _fails("the bound is another", document("lag.json", _set(bound_s=1e6)),
            "lag.json: 1e+06 s is not the bound of the experiment", SERVICES),
    ),
    measures.TIMINGS: (_needed("timings.json"), _emptied("timings.json", "{}\n", " is empty")),
    measures.SIMULATION: (
        _gone("simulation.json", SIMULATIONS),
        _emptied("simulation.json", "{}\n", " is empty", SIMULATIONS),
    ),
}
# fmt: on
_RESULT = "It is a result: each accounting writes it from the evidence."
_PEOPLE = "It is for people: neither a number nor the verdict rests on it."
#: File -> why no mutation of it can change the verdict.
NO_EVIDENCE: dict[RunFile, str] = {
    **dict.fromkeys(
        (run_files.KEYS, run_files.NETWORK_KEYS, run_files.SIGNING_KEYS),
        "It is a secret; after the run nothing reads it.",
    ),
    **dict.fromkeys((run_files.CONTROLLER_PROCESS, run_files.ROUTERS_PROCESS, run_files.SPARK), _PEOPLE),
    **dict.fromkeys(
        (
            *(oracle.ORACLE, oracle.SUBSCRIPTIONS, oracle.JUDGEMENT, run_files.TABLES),
            *(run_files.TABLES_AT_WORK, measures.ACCOUNTING, summary.SUMMARY, run_files.REPORT),
        ),
        _RESULT,
    ),
}
_GROUPS = {
    ALL: "all",
    SERVICES: "emulations",
    SIMULATIONS: "simulations",
    MESSAGING: "messaging",
    PLAIN: "plain",
    PULLED: "pulled",
}


def of_runs(names: Runs) -> list[Any]:
    """Name of a run and mutation, as parameters of a test."""
    return [
        pytest.param(name, mutation, id=f"{name}, {names_of(file).split('`')[1]}: {mutation.name}")
        for file, mutations in CATALOGUE.items()
        for mutation in mutations
        for name in names
        if name in mutation.runs
    ]


def noticed(mutation: Mutation, run_dir: Path, folder: Path) -> None:
    """Asserts that a copy of a run with the mutation, made in `folder`, has its verdict for its reason."""
    run = copy_of(run_dir, folder)
    mutation.change(run)
    verdict, reasons = mutation.by(run)
    assert verdict == mutation.verdict, reasons
    assert verdict == HOLDS or any(map(mutation.names, reasons)), reasons


def table() -> str:
    """The text of docs/reference/mutations.csv."""
    written = io.StringIO()
    rows = csv.writer(written, lineterminator="\n")
    rows.writerow(("file", "change", "runs", "verdict", "reason"))
    for file, mutations in CATALOGUE.items():
        for each in mutations:
            runs = _GROUPS.get(each.runs, ", ".join(each.runs))
            verdict = "not noticed" if each.verdict == HOLDS else each.verdict
            replay = " (replay)" if each.by is replayed else ""
            rows.writerow((_names(file), each.name, runs, verdict + replay, each.named))
    rows.writerows((_names(file), "any", "all", "no evidence", why) for file, why in NO_EVIDENCE.items())
    return written.getvalue()


def _names(file: RunFile) -> str:
    return names_of(file).replace("`", "")


if __name__ == "__main__":
    (DOCS / "reference/mutations.csv").write_text(table(), encoding="utf-8")
