"""The summary of a run: its keys, their units and meanings, reader and writer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from captures.rundir.files import Document, RunFolderError
from captures.rundir.layout import RunLayout

_FRAMES = "Ethernet frames (each fragment counts)"
#: Key -> (unit, meaning), in the order of summary.json; `document` makes docs/reference/summary.md from it.
SUMMARY_KEYS: dict[str, tuple[str, str]] = {
    "experiment": ("text", "name of the experiment"),
    "routers": ("count", "routers (nodes) of the topology"),
    "links": ("count", "links between routers"),
    "duration_s": ("experiment seconds", "length of the experiment"),
    "time_scale": (
        "1",
        "experiment seconds per wall second, from second 0 to the last event of an application: the mean "
        "where the rate changed",
    ),
    "datapath": ("text", "switch datapath: `kernel` or `user`; `simulated` of a simulation"),
    "bring_up_s": ("wall seconds", "from the start of the run until every router could originate"),
    "run_s": ("wall seconds", "from the first predicate that was set until the network was quiet at the end"),
    "teardown_s": ("wall seconds", "to take the emulated network down"),
    "workload_lateness_max_s": ("wall seconds", "greatest delay of a request of the workload after its time"),
    "lag": (
        "object",
        "by part (`routers`, `workload`, `switches`, `captures`), how late it was: `lag_s`, experiment "
        "seconds; `at_s`, when; `lag_wall_s`, greatest lag in wall seconds; `node`, of a router. Null: not "
        "measured. docs/explanation/clock.md says how each part measures",
    ),
    "lag_bound": ("object", "the greatest lag of a valid run: `lag_s`, experiment seconds, and `lag_wall_s`"),
    "longest_turn": (
        "object",
        "the longest turn of a router's loop: `node`, `turn_s` (wall seconds), `of` (type of the last frame, "
        "`deadline`, `request` or `compiled`), `at_s`; `cpu_s`, the greatest CPU time of a turn of any "
        "router, which is less where other processes had the processor",
    ),
    "sufficient_time_scale": (
        "1",
        "of an invalid run, a time scale at which the lag would have been below the bound, by rule of three",
    ),
    "answer_delay": (
        "object, wall seconds",
        "from a request of the workload to send, or to change a predicate, to the answer of the router: "
        "`median_s`, `p99_s`, `max_s`; null without a request",
    ),
    "memory_per_router_bytes": (
        "bytes",
        "mean proportional set size of the router processes when the workload ends; shared pages count once",
    ),
    "accounting_s": ("wall seconds", "for the accounting, including the start of Spark"),
    "held": (
        "true or false",
        "whether the network was held until its user ended the run (`cbcb run --hold`): a session may end "
        "before the workload, and none of its deliveries need be decided",
    ),
    "messages_sent": ("messages", "messages that applications sent and their routers accepted"),
    "messages_planned": ("messages", "messages that the workload schedules"),
    "deliveries_expected": (
        "deliveries",
        "pairs of a message and an application whose predicate, in force when the message was sent, selects "
        "the message (the paper's instantaneous oracle), decided or not",
    ),
    "deliveries_made": (
        "deliveries",
        "distinct pairs of a message and an application to which its router handed the message over",
    ),
    "deliveries_lost": (
        "deliveries",
        "distinct pairs of a message and an application whose connection broke, or that was disconnected "
        "because it did not read, before its router could hand the message over: neither made nor missed",
    ),
    "deliveries_undecided": (
        "deliveries",
        "pairs that the oracle leaves open: a predicate change or link event was too close to the sending",
    ),
    "deliveries_decided": (
        "deliveries",
        "pairs expected, decided, and sent at or after convergence: base of the verdict on missed deliveries",
    ),
    "false_negatives": (
        "deliveries",
        "pairs expected and neither delivered nor lost, decided or not (paper, figure 11)",
    ),
    "false_negatives_after_convergence": (
        "deliveries",
        "pairs expected, decided, sent at or after convergence, and neither delivered nor lost",
    ),
    "convergence_s": (
        "wall seconds",
        "from the first request of an opening predicate to the last frame, in any capture, of the first wave "
        "of RAs; the wave holds the RA with which each node answered its opening predicate (the workload's "
        "earliest). Later RAs, as after a link event, do not count. Null if no RA of the wave was captured; "
        "then messages count as sent after convergence from the last confirmation of an opening predicate on",
    ),
    "epochs": ("count", "sets of broadcast trees that every router of the network has used"),
    "recovery_s": (
        "list of objects",
        "one for each change of the network after its set-up: failures and returns of links, nodes or "
        "routers, as the controller saw them; events that one epoch answers are one change. `events`; "
        "`at_s`, experiment seconds; `epoch`, the epoch that answered; `committed_s`, wall seconds from the "
        "first event until every router had the new trees; `advertised_s`, wall seconds from the first event "
        "to the last frame, in any capture, of the RAs that the epoch called for (the first RA in the epoch "
        "of each node that had advertised in an earlier epoch). Null: it never happened",
    ),
    "spurious_deliveries": ("deliveries", "distinct pairs delivered, decided and not expected"),
    "duplicate_deliveries": ("deliveries", "deliveries of a pair beyond the first"),
    "delivery_delay": (
        "object, wall seconds",
        "from the time at which the router of the sending application read its request until the router of "
        "the receiving application had handed the message over to its socket, at the first delivery, over "
        "the delivered pairs: `median_s`, `p90_s`, `p99_s`, `max_s`, `mean_s`; null without a delivery",
    ),
    "stretch": (
        "object, ratios",
        "length of a message's path to a router / length of the shortest path in the whole topology, over "
        "all routers that messages reached: `stretch_hops_mean`, `stretch_hops_max` in hops, "
        "`stretch_cost_mean`, `stretch_cost_max` in cost; null where no message crossed a link",
    ),
    "false_positives": (
        "messages",
        "messages that a router received, from a neighbour or its own applications, and neither forwarded to "
        "a neighbour nor delivered to an application, over all routers: false positives among all messages "
        "at routers (paper, section 4.2, figure 12)",
    ),
    "messages_received_by_routers": (
        "messages",
        "messages that routers received, from neighbours and from their own applications, of which "
        "false_positives is a part; a message counts once at each router",
    ),
    "false_positives_from_network": (
        "messages",
        "false positives among messages from neighbours: those of `false_positives` that crossed a link",
    ),
    "messages_received_from_network": ("messages", "messages that routers received from neighbours"),
    "message_crossings": (
        "object, crossings of a link by a message",
        "over the `messages` of which the broadcast tree is known: `cbcb` in the captures; `broadcast` to "
        "every router along the tree of the source; `unicast` to each router that expects the message, on "
        "the path of least cost; `minimal`: the part of the tree of the source that leads to these routers. "
        "A message of several frames counts once",
    ),
    "excess_crossings": (
        "crossings of a link by a message",
        "`cbcb` less `minimal`, over the messages sent at or after convergence of which the oracle decides "
        "on every receiver: 0 with a routing scheme that is minimal",
    ),
    "state": (
        "object",
        "memory of all routers at the end. Keys are a part and a unit, as `rib_filters`. Parts: "
        "`forwarding`, what messages are matched against; `forwarding_senders`, of it, for the sources that "
        "sent messages; `local`, p0; `rib`, predicates kept beside it. Units: `filters`, `constraints`, "
        "`bytes` as sent. Further: `broadcast_bytes`, the last TABLE of each router; `unicast_bits`, next "
        "hops, if they were kept; `engine_bytes`, tables of the matching engines, 0 in a simulation. The "
        "table `schemes` has them by router",
    ),
    "attention": (
        "object",
        "of the attention-limited service, else null (attention paper, section 5). `saved_bandwidth`: 1 - "
        "`publication_crossings` / `cbr_crossings`, PUB frames on links against an ideal content-based "
        "network with exhaustive semantics on the same trees; `saved_with_flushes`: `flush_crossings` "
        "(copies, offers of custody and their answers) counted too; `control_overhead`: `control_crossings` "
        "(SUB and OVERLOAD frames on links; OVERLOAD alone: `notification_crossings`) / `cbr_control` (a "
        "flood for each registration and refresh); of the rounds whose lifetime ended in the run, "
        "`starvation`: share that got fewer than `max` <= M_S, `satisfied`: share that got min(M_S, max) or "
        "more; `overload`: publications that came to a home whose subscriptions were satisfied, or over; "
        "`registrations`, refreshes included; `publications`; `deliveries`; `deliveries_from`: by where the "
        "router had the publication (`upload`, an index, or `remote`); `outcomes`: rounds by outcome; "
        "`violations`: deliveries by the safety rule that they break, and `examples`; `starved_decided`: "
        "rounds that starve although enough publications were uploaded away from the ends of the lifetime, "
        "a fault unless `undecided` says why not",
    ),
    "private": (
        "object",
        "of a run with `[privacy]`, else null. `delivered`: messages that routers handed to members; "
        "`kept`; `discarded`, by cause; `precision`: share kept; `operator_share` and `hash_share`: of "
        "`delivered`. `crossings` of links by messages: `kept`, links that lead to a member that kept the "
        "message; else `operator`, to a member that discarded it for that cause; else `hash`; else `other`; "
        "`no_delivery`, beyond all members that got it. `unwanted_crossings`: all but `kept`. Both are null "
        "where no link was captured (`rests_on`)",
    ),
    "control_share": (
        "fraction",
        "RA, SR and UR frames / MSG, RA, SR and UR frames, on links between routers; null without any",
    ),
    "frames_by_type": (
        "object, frames",
        f"{_FRAMES}, on links between routers; each transmission counts once; an encoded frame has the type "
        "of the frame in whose place it is, as in column `type` (tables.md)",
    ),
    "bytes_by_type": ("object, bytes", "bytes of the frames, Ethernet header included"),
    "frames_by_type_host_links": (
        "object, frames",
        f"{_FRAMES}, on the links between switches and their routers, including the controller's",
    ),
    "bytes_by_type_host_links": ("object, bytes", "bytes of the frames, Ethernet header included"),
    "frames_captured": ("frames", f"{_FRAMES}, in all captures"),
    "frames_undecodable": ("frames", "captured frames that do not decode"),
    "frames_repeated": (
        "frames",
        "MSG frames that had crossed the same link in the same direction before: evidence of a loop, unless "
        "links double frames",
    ),
    "links_captured": (
        "links",
        "links between routers that were captured; totals leave out other links",
    ),
    "host_links_captured": (
        "links",
        "links between switches and their routers that were captured; unless all were, false positives are "
        "the routers' own counts",
    ),
    "ip_frames": (
        "frames",
        "IPv4 frames that crossed links between switches, captured apart; no other key counts them; null "
        "without `[network] ip = true`",
    ),
    "messages_unrecorded": (
        "messages",
        "distinct (issuer, seq) of captured MSG frames that no router recorded as sent by an application of "
        "its own, such as a forged message; `reconciliation` names the first five",
    ),
    "contradictions": (
        "list of texts",
        "evidence that contradicts other evidence; one makes the verdict fail. Messages with other contents "
        "in their record than in their frames, or with frames of several epochs; messages captured or "
        "delivered before they were sent, or delivered before they were captured; frames and records "
        "outside the time of the run, or records before their request; inputs that are not those of the "
        "start; pieces of the clock, events of the controller or lag of routers that do not fit together. "
        "Of each kind the first 100 are named, the rest counted. Not found (mutations.md): a delivery "
        "recorded late within the run; a clock some seconds off as a whole; another bound of lag in wall "
        "seconds; an outcome of a subscription that was not satisfied, and transitions of caches; an "
        "altered frame of a private network, which members discard; an altered RA, SR or UR, which routers "
        "change on their way; the time of a frame within the run; the reasons of `dropped`; what an "
        "application was given, but for the frame that its router got",
    ),
    "evidence_missing": (
        "list of texts",
        "files that the manifest lists as evidence, or that a fault made the run write, and that are gone. "
        "One of them makes the verdict fail; without `lag.json` it is `invalid`. Files that the accounting "
        "cannot do without, such as a capture, end it with an error that names them",
    ),
    "records_lost": (
        "records",
        "records of applications that routers could not write, on a full disk for instance",
    ),
    "capture_drops": ("frames", "frames that devices had and the captures lost"),
    "capture_defects": ("list of texts", "captures that end inside a record, and the place"),
    "socket_drops": ("frames", "frames that the kernel dropped at the routers' sockets"),
    "switch_drops": (
        "frames",
        "frames that switches lost: with the userspace datapath, those that found no room in the buffers of "
        "ports; with the kernel datapath, those without a flow that it could not hand over to ovs-vswitchd "
        "(`lost` of `ovs-appctl dpctl/show`)",
    ),
    "router_send_drops": (
        "frames",
        "frames that routers discarded: too large to encode, or the send queue was full",
    ),
    "frames_refused": (
        "list of texts",
        "frames that routers and the controller refused because they were not authentic, by receiver, by "
        "the node in whose name they came and by reason; with `[security]` alone",
    ),
    "frames_replayed": (
        "list of texts",
        "authentic frames that came again, in the form of `frames_refused`: duplicates of a link, or "
        "replays, which routers and controller dropped. They do not fail the verdict "
        "(docs/explanation/security.md)",
    ),
    "frames_rejected": (
        "list of texts",
        "frames of routers of which the controller took no notice for what they said, in the form of "
        "`frames_refused`, in every mode of `[security]`: `hello_rate`, `other_epoch`, `wrong_issuer`, "
        "`unexpected_type`. They do not fail the verdict",
    ),
    "frames_dropped_by_switches": (
        "list of texts",
        "frames that the rules of switches dropped, by the node of the switch, since it got its rules "
        "last: with the address of the controller; all others that no rule forwards, as with a VLAN tag or "
        "from a host with the address of another node. They do not fail the verdict",
    ),
    "reconciliation": (
        "object",
        "`tshark`, `captures` (counts of the process that captured), `routers`, `ovs`: each with `expected` "
        "(frames by that source), `found` (frames by the accounting) and `differences`, a list of `where`, "
        "`expected`, `found`; `routers` has bytes and counters of the protocol too. `applications`: what "
        "routers counted of applications and of the service (messages and publications sent and delivered, "
        "rounds of subscriptions, what they got) against their records, and captured messages that no "
        "router recorded. Killed routers are left out; a router may count more deliveries than are recorded "
        "where an application left",
    ),
    "rests_on": (
        "object",
        "evidence of the summary. `engine` of the accounting: `spark` or `duckdb`; `no_tshark`: null, or "
        "why the captures were not compared with tshark, without which a verdict may hold; `frames`: source "
        "of the numbers of frames on links: `captures`, `captures of K of N links`, or, where no link was "
        "captured, `counters of routers`: frames_by_type then has the frames that routers received from "
        "neighbours, and bytes_by_type is empty",
    ),
    "verdict": (
        "text",
        "`holds`, `fails`, or `invalid`: the machine was too slow (`lag` exceeds `lag_bound`, or captures "
        "lost frames), or nobody knows (`lag.json` is missing), and the run says nothing of the network",
    ),
    "verdict_reasons": ("list of texts", "why it fails or is invalid; empty if it holds"),
}

#: Type of a value in words -> its Python types, and the type of the values of a list.
_TYPES: dict[str, tuple[tuple[type, ...], str]] = {
    "text": ((str,), ""),
    "number": ((int, float), ""),
    "true or false": ((bool,), ""),
    "object": ((dict,), ""),
    "list of texts": ((list,), "text"),
    "list of objects": ((list,), "object"),
    "list of differences": ((list,), "difference"),
    "difference": ((str, dict), ""),
}
#: Name of a value within an object -> its type; every other value is a number.
_INNER = {
    name: kind
    for kind, names in {
        "object": "routers workload switches captures tshark ovs applications "
        "deliveries_from outcomes violations discarded crossings",
        "text": "of engine frames no_tshark undecided where",
        "list of texts": "events examples",
        "list of differences": "differences",
    }.items()
    for name in names.split()
}
#: Key -> names that its object, or each object of its list, has whoever wrote it.
_NEEDED = {
    "attention": "outcomes violations satisfied starvation saved_bandwidth control_overhead registrations "
    "publications deliveries deliveries_from undecided",
    "outcomes": "satisfied starved short open",
    "private": "discarded unwanted_crossings crossings",
    "recovery_s": "events at_s epoch committed_s advertised_s",
    "lag_bound": "lag_s lag_wall_s",
    "message_crossings": "messages cbcb broadcast unicast minimal",
    "differences": "where expected found",
}

SUMMARY = Document(
    lambda run: [run.summary],
    "The results of the run in numbers. docs/reference/summary.md describes its keys.",
    form=dict[str, Any],
)
write_summary = SUMMARY.write


def read_summary(run: RunLayout) -> dict[str, Any]:
    """Reads the summary; a key that it lacks is another version's.

    Raises:
        RunFolderError: the file is missing or malformed, or a value has another type than its key says.
    """
    summary = SUMMARY.read(run)
    for fault in faults(summary):
        raise RunFolderError(f"{run.summary}: {fault}")
    return summary


def faults(summary: Mapping[str, Any]) -> Iterator[str]:
    """Yields the keys of a summary whose values have another type than `SUMMARY_KEYS` says, as messages."""
    for key, (unit, _) in SUMMARY_KEYS.items():
        kind = unit.partition(",")[0]
        yield from _faults(key, summary.get(key), kind if kind in _TYPES else "number", key)


def _faults(where: str, value: Any, kind: str, key: str) -> Iterator[str]:
    """Yields the faults of a value, at a place, of the object or list of a key."""
    types, each = _TYPES[kind]
    if value is None:
        return
    if not isinstance(value, types):
        yield f"{where}: {value!r:.60}; expected: {kind}"
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _faults(f"{where}[{number}]", inner, each, key)
    elif isinstance(value, dict):
        for name in _NEEDED.get(key, "").split():
            if name not in value:
                yield f"{where}: has no {name}"
        for name, inner in value.items():
            yield from _faults(f"{where}.{name}", inner, _INNER.get(name, "number"), name)


def document() -> str:
    """The text of docs/reference/summary.md."""
    lines = ["# Keys of summary.json", "", "| key | unit | meaning |", "|---|---|---|"]
    lines += [f"| `{key}` | {unit} | {meaning} |" for key, (unit, meaning) in SUMMARY_KEYS.items()]
    return "\n".join(lines) + "\n"
