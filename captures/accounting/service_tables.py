"""The records of the attention-limited service, and the oracle's answers about it, as Arrow tables."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from captures.accounting.inputs import Inputs
from captures.accounting.log_tables import signed64
from captures.rundir.applications import AttentionEvent
from captures.rundir.oracle import read_subscriptions
from captures.tables.catalogue import TABLES
from router.predicates.model import Message
from router.predicates.printer import format_message

_SERVICE = pa.schema(
    [
        *(("event", pa.string()), ("t_ns", pa.int64()), ("node", pa.int32()), ("app", pa.string())),
        *(("source", pa.int64()), ("seq", pa.int64()), ("message", pa.string())),
        *(("subscription", pa.int64()), ("round", pa.int32())),
        *(("age_s", pa.float64()), ("whence", pa.string())),
        *((name, pa.string()) for name in ("before", "after", "cause")),
    ]
)
#: Unsigned numbers of 64 bits.
_UNSIGNED = ("seq", "subscription")


def subscription_table(inputs: Inputs) -> pa.Table:
    """The table `subscriptions`: rounds of subscriptions, judged by the oracle."""
    rows = [
        {**_signed(row), "matching": row["m_s"], "eligible": row["m_s_eligible"]}
        for row in map(dict, read_subscriptions(inputs.run))
    ]
    return pa.Table.from_pylist(rows, schema=TABLES["subscriptions"].schema)


def service_table(inputs: Inputs) -> pa.Table:
    """The records of routers, with the columns of `_SERVICE`; empty with another service."""
    events = inputs.service if inputs.judgement is not None else []
    return pa.Table.from_pylist([_row(event) for event in events], schema=_SERVICE)


def _row(event: AttentionEvent) -> dict[str, Any]:
    row = _signed(dict(event))
    if "attributes" in row:
        row["message"] = format_message(Message(row["attributes"]))
    return row


def _signed(row: dict[str, Any]) -> dict[str, Any]:
    return row | {name: signed64(row[name]) for name in _UNSIGNED if name in row}
