"""The tables of the attention-limited service, from the records of routers and the oracle's answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from math import floor
from typing import Any

import pyarrow as pa

from captures.accounting.inputs import Inputs
from captures.accounting.log_tables import signed64
from captures.rundir.applications import AttentionEvent
from captures.rundir.oracle import read_subscriptions
from captures.tables.catalogue import TABLES
from router.predicates.model import Message
from router.predicates.printer import format_message

_INDEXES = ("ppt", "dpt", "opt")


def subscriptions(inputs: Inputs) -> pa.Table:
    """The rounds of subscriptions, judged by the oracle."""
    rows = [
        {
            **row,
            "subscription": signed64(row["subscription"]),
            "matching": row["m_s"],
            "eligible": row["m_s_eligible"],
        }
        for row in read_subscriptions(inputs.run)
    ]
    return pa.Table.from_pylist(rows, schema=TABLES["subscriptions"].schema)


def publications(inputs: Inputs) -> pa.Table:
    """The publications, with where they came to."""
    uploads: dict[tuple[int, int], dict[str, Any]] = {}
    delivered: Counter[tuple[int, int]] = Counter()
    remote: Counter[tuple[int, int]] = Counter()
    homes: dict[tuple[int, int], set[int]] = {}
    for at_s, record in _records(inputs):
        if record["event"] == "upload":
            key = record["source"], record["seq"]
            uploads[key] = {"uploaded_s": at_s, "message": format_message(Message(record["attributes"]))}
        elif record["event"] == "deliver":
            key = record["source"], record["seq"]
            delivered[key] += 1
            remote[key] += record["whence"] == "remote"
            homes.setdefault(key, set()).add(record["node"])
    rows = [
        {
            "source": key[0],
            "seq": signed64(key[1]),
            **each,
            "deliveries": delivered[key],
            "deliveries_remote": remote[key],
            "homes": len(homes.get(key, ())),
        }
        for key, each in uploads.items()
    ]
    return pa.Table.from_pylist(rows, schema=TABLES["publications"].schema)


def publication_deliveries(inputs: Inputs) -> pa.Table:
    """The deliveries of publications, and where the home had each."""
    rows = [
        {
            "source": record["source"],
            "seq": signed64(record["seq"]),
            "node": record["node"],
            "app": record["app"],
            "subscription": signed64(record["subscription"]),
            "round": record["round"],
            "t_s": at_s,
            "age_s": record["age_s"],
            "whence": record["whence"],
        }
        for at_s, record in _records(inputs)
        if record["event"] == "deliver"
    ]
    return pa.Table.from_pylist(rows, schema=TABLES["publication_deliveries"].schema)


def index_changes(inputs: Inputs) -> pa.Table:
    """The way of publications through the indexes of routers; empty without `record_caches`."""
    rows = [
        {
            "source": record["source"],
            "seq": signed64(record["seq"]),
            "node": record["node"],
            "t_s": at_s,
            "before": record["before"],
            "after": record["after"],
            "transition": record["cause"],
        }
        for at_s, record in _records(inputs)
        if record["event"] == "cache"
    ]
    rows.sort(key=lambda row: (row["t_s"], row["node"]))
    return pa.Table.from_pylist(rows, schema=TABLES["index_changes"].schema)


def cache_bins(inputs: Inputs) -> pa.Table:
    """The indexes of routers over time; empty without `record_caches`."""
    changes: Counter[tuple[int, str, int, str]] = Counter()
    recorded = False
    for at_s, record in _records(inputs):
        position = floor(at_s / inputs.bin_s)
        if record["event"] == "cache":
            recorded = True
            if record["before"] is not None:
                changes[record["node"], record["before"], position, "left"] += 1
                if record["cause"] in ("evicted", "flushed"):
                    changes[record["node"], record["before"], position, "evicted"] += 1
            if record["after"] is not None:
                changes[record["node"], record["after"], position, "entered"] += 1
        elif record["event"] == "deliver" and record["whence"] in _INDEXES:
            changes[record["node"], record["whence"], position, "hits"] += 1
    rows = []
    sizes: Counter[tuple[int, str]] = Counter()
    for node, index, position in sorted({key[:3] for key in changes}) if recorded else ():
        counts = {
            what: changes[node, index, position, what] for what in ("entered", "left", "evicted", "hits")
        }
        sizes[node, index] += counts["entered"] - counts["left"]
        rows.append(
            {
                "node": node,
                "index": index,
                "bin_s": position * inputs.bin_s,
                "size": sizes[node, index],
                **counts,
            }
        )
    return pa.Table.from_pylist(rows, schema=TABLES["cache_bins"].schema)


def attention_curve(inputs: Inputs) -> pa.Table:
    """Publications, deliveries and the outcomes of rounds over time."""
    counts: Counter[tuple[int, str]] = Counter()
    for at_s, record in _records(inputs):
        position = floor(at_s / inputs.bin_s)
        counts[position, record["event"]] += 1
        if record["event"] == "deliver" and record["whence"] == "remote":
            counts[position, "remote"] += 1
    for row in read_subscriptions(inputs.run):
        if row["outcome"] in ("satisfied", "starved", "short"):
            ended_s = row["begin_s"] + (row["lifetime_s"] if row["filled_s"] is None else row["filled_s"])
            position = floor(ended_s / inputs.bin_s)
            counts[position, "ended"] += 1
            counts[position, row["outcome"]] += 1
    rows = [
        {
            "t_s": (position + 1) * inputs.bin_s,
            "publications_per_s": counts[position, "upload"] / inputs.bin_s,
            "registrations_per_s": (counts[position, "register"] + counts[position, "refresh"])
            / inputs.bin_s,
            "deliveries_per_s": counts[position, "deliver"] / inputs.bin_s,
            "remote_fraction": _share(counts[position, "remote"], counts[position, "deliver"]),
            "satisfied_fraction": _share(counts[position, "satisfied"], counts[position, "ended"]),
            "starved_fraction": _share(counts[position, "starved"], counts[position, "ended"]),
        }
        for position in sorted({position for position, _ in counts})
    ]
    return pa.Table.from_pylist(rows, schema=TABLES["attention_curve"].schema)


def _records(inputs: Inputs) -> Iterator[tuple[float, AttentionEvent]]:
    """Yields the records after their times in experiment seconds; none with another service."""
    if inputs.judgement is None:
        return
    for record in inputs.service:
        yield inputs.clock.experiment_s(record["t_ns"]), record


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
