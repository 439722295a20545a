"""The records of applications and of the service against the counters of the routers that wrote them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

import pyarrow as pa

from captures.accounting.inputs import Inputs
from captures.accounting.log_tables import DELIVERIES
from captures.rundir.faults import killed_routers
from router.predicates import Predicate
from router.predicates.parser import parse_predicate
from router.predicates.printer import format_predicate
from router.records.attention import AttentionEvent

#: Wall seconds in which a router has noticed that an application left, beside the time on the way.
_NOTICED_S = 5.0
#: Counter of a router -> its name in words.
_COUNTED = {
    "messages_sent": "messages sent",
    "messages_delivered": "messages delivered",
    "publications_uploaded": "publications uploaded",
    "publications_delivered": "publications delivered",
    "rounds_begun": "rounds of subscriptions begun",
    "rounds_satisfied": "rounds of subscriptions satisfied",
}
#: Events of the service -> the counter that counts them; of outcomes, one is counted.
_OF_SERVICE = {
    "upload": "publications_uploaded",
    "deliver": "publications_delivered",
    "register": "rounds_begun",
    "refresh": "rounds_begun",
    "satisfied": "rounds_satisfied",
}


def recorded_and_counted(inputs: Inputs) -> tuple[dict[str, int], dict[str, int]]:
    """Returns what routers counted, and what their records have, by router and name of the counter.

    A router that was killed is left out: its counters begin with its last start. So is one that could not
    write all records: the key `records_lost` has it. Where an application left, its router may have counted
    deliveries that nobody recorded (`under_way`). The outcome of a round is compared with the
    deliveries of the round.
    """
    log = inputs.log
    lost = {node for node, counters in inputs.router_counters.items() if counters.get("records_lost", 0)}
    left_out = lost | {node for node, _ in killed_routers(inputs.faults)}
    found: dict[str, Mapping[int, int]] = {
        "messages_sent": Counter(log.sent["source"].to_pylist()),
        "messages_delivered": _deliveries([log.deliveries, log.discarded, log.lost]),
    }
    counted: dict[str, int] = {}
    recorded: dict[str, int] = {}
    unsure = under_way(inputs)
    if inputs.judgement is not None:
        events = [event for event in inputs.service if event["node"] not in left_out]
        found |= _of_service(events)
        _add_outcomes(events, counted, recorded)
    for node, counters in inputs.router_counters.items():
        for name, words in _COUNTED.items():
            if name not in counters or node in left_out:
                continue
            where = f"router {node}: {words}"
            counted[where], recorded[where] = counters[name], found.get(name, {}).get(node, 0)
            if name == "messages_delivered" and 0 < counted[where] - recorded[where] <= unsure.get(node, 0):
                counted[where] = recorded[where]
    # Others may set predicates beside the workload; a subscription changes what is in force.
    if not (inputs.held or inputs.faults or any(line["action"] == "subscribe" for line in inputs.workload)):
        made = Counter(zip(*(log.declared[name].to_pylist() for name in ("node", "predicate")), strict=True))
        lines = [line for line in inputs.workload if line["action"] == "set_predicate"]
        for (node, text), times in Counter((line["node"], line["predicate"]) for line in lines).items():
            done = made[node, format_predicate(Predicate(tuple(dict.fromkeys(parse_predicate(text)))))]
            if node not in lost and done < times:
                where = f"router {node}: requests for the predicate {text[:80]}"
                counted[where], recorded[where] = times, done
    return counted, recorded


def under_way(inputs: Inputs) -> dict[int, int]:
    """Returns the deliveries, by node, that a router may have counted and nobody recorded.

    The router chose an application before it noticed its end: of the messages that were under way then. A
    member of a private network may have left any number unread, which its router had counted long before.
    """
    log = inputs.log
    window_s = inputs.experiment.get("oracle", {}).get("in_flight_window_s", 0.0)
    around_ns = int((window_s + _NOTICED_S) * 1e9)
    sent = log.sent["sent_ns"].to_numpy()
    found: Counter[int] = Counter()
    for node, t_ns in log.left:
        near = len(sent) if inputs.private else int((abs(sent - t_ns) <= around_ns).sum())
        found[node] = min(found[node] + near, len(sent))
    return dict(found)


def _deliveries(tables: Iterable[pa.Table]) -> dict[int, int]:
    """The deliveries of each node: a message counts once, however many of its applications get it."""
    rows = pa.concat_tables(table.select(DELIVERIES.names) for table in tables)
    by_application = rows.group_by(["node", "source", "seq", "app"]).aggregate([("t_ns", "count")])
    by_message = by_application.group_by(["node", "source", "seq"]).aggregate([("t_ns_count", "max")])
    by_node = by_message.group_by("node").aggregate([("t_ns_count_max", "sum")])
    return dict(zip(by_node["node"].to_pylist(), by_node["t_ns_count_max_sum"].to_pylist(), strict=True))


def _of_service(events: Iterable[AttentionEvent]) -> dict[str, Counter[int]]:
    found: defaultdict[str, Counter[int]] = defaultdict(Counter)
    for event in events:
        name = event["outcome"] if event["event"] == "outcome" else event["event"]
        if name in _OF_SERVICE:
            found[_OF_SERVICE[name]][event["node"]] += 1
    return found


def _add_outcomes(
    events: Iterable[AttentionEvent], counted: dict[str, int], recorded: dict[str, int]
) -> None:
    """Adds the publications that rounds got: by the records of their outcomes, and of the deliveries."""
    got: Counter[str] = Counter()
    for event in events:
        if event["event"] == "deliver" or event["event"] == "outcome":
            where = f"router {event['node']}: round {event['round']} of {event['subscription']}"
            remote = f"{where}, by other routers"
            if event["event"] == "deliver":
                got[where] += 1
                got[remote] += event["whence"] == "remote"
            else:
                counted |= {where: event["got"], remote: event["got_remote"]}
                recorded |= {where: got[where], remote: got[remote]}
