"""The records of the attention-limited service: what a router wrote about subscriptions and publications.

A subscription is identified by `node`, its home, and `subscription`; a publication by `source` and `seq`.
`t_ns` is wall clock in nanoseconds since 1970 UTC, read by the router when it wrote the record. `at_s` is the
time by which the router decided, in experiment seconds of a clock that all routers of the run share; its
second 0 is not that of the workload.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypedDict

from router.predicates import Value
from router.records.forms import NodeNumber, TimeNs, forms_by_event
from router.records.json_file import RecordFile

_SUBSCRIPTION = "number of the subscription, unique at its home; 64 bits, unsigned"
_SEQ = "sequence number of the publication, 64 bits, unsigned"


class _Decided(TypedDict):
    t_ns: Annotated[TimeNs, "when the router wrote the record"]
    at_s: Annotated[float, "when the router decided, experiment seconds of its clock"]


class _OfRound(_Decided):
    node: Annotated[NodeNumber, "home of the subscription"]
    app: Annotated[str, "name of the application"]
    subscription: Annotated[int, _SUBSCRIPTION]
    round: Annotated[int, "round of the subscription: 0, and one more with each refresh"]


class SubscriptionRegistered(_OfRound):
    """A round of a subscription has begun: `register` of a new subscription, `refresh` of one that is over.

    A subscription that the application registered as refreshed begins with `refresh`.
    """

    event: Literal["register", "refresh"]
    predicate: Annotated[str, "the predicate in the readable notation"]
    max: Annotated[int, "greatest number of publications of the round"]
    lifetime_s: Annotated[float, "duration of the round, experiment seconds"]
    freshness_s: Annotated[float, "greatest age of a publication, experiment seconds"]


class SubscriptionWithdrawn(_Decided):
    """An application has withdrawn a subscription, or has left."""

    event: Literal["unregister"]
    node: Annotated[NodeNumber, "home of the subscription"]
    app: Annotated[str, "name of the application"]
    subscription: Annotated[int, _SUBSCRIPTION]


class PublicationUploaded(_Decided):
    """An application has uploaded a publication."""

    event: Literal["upload"]
    node: Annotated[NodeNumber, "node of the application, which is the source"]
    app: Annotated[str, "name of the application"]
    source: Annotated[NodeNumber, "node at which the publication was uploaded"]
    seq: Annotated[int, _SEQ]
    attributes: Annotated[Mapping[str, Value], "the publication: name of the attribute -> value"]


class PublicationDelivered(_OfRound):
    """A router has delivered a publication to an application, for one subscription."""

    event: Literal["deliver"]
    source: Annotated[NodeNumber, "node at which the publication was uploaded"]
    seq: Annotated[int, _SEQ]
    age_s: Annotated[
        float, "time since the upload as frames have told, without the time on links; experiment seconds"
    ]
    whence: Annotated[
        str,
        "`upload`: uploaded at this router at that moment; `ppt`, `dpt`, `opt`: from that index of the "
        "router; `remote`: another router sent it",
    ]


class RoundOver(_OfRound):
    """A round of a subscription is over."""

    event: Literal["outcome"]
    outcome: Annotated[
        str,
        "`satisfied`: `max` publications were delivered; `expired`: the lifetime passed before; "
        "`withdrawn`: the subscription was withdrawn before",
    ]
    got: Annotated[int, "publications delivered in the round"]
    got_remote: Annotated[int, "those of them that another router sent"]
    max: Annotated[int, "greatest number of publications of the round"]


class CacheChanged(_Decided):
    """A publication entered, left or changed an index of the router; with the option `record_caches`."""

    event: Literal["cache"]
    node: Annotated[NodeNumber, "the router"]
    source: Annotated[NodeNumber, "node at which the publication was uploaded"]
    seq: Annotated[int, _SEQ]
    before: Annotated[str | None, "`ppt`, `dpt` or `opt`; null: in no index"]
    after: Annotated[str | None, "`ppt`, `dpt` or `opt`; null: in no index"]
    cause: Annotated[
        str, "row of the table of transitions (docs/explanation/attention.md), or `evicted`, `flushed`"
    ]


AttentionEvent = (
    SubscriptionRegistered
    | SubscriptionWithdrawn
    | PublicationUploaded
    | PublicationDelivered
    | RoundOver
    | CacheChanged
)

#: Name of the event -> its record.
ATTENTION_EVENTS: dict[str, type[AttentionEvent]] = forms_by_event(AttentionEvent)


class ServiceRecords(RecordFile):
    """Writes the records of the actions of a service (`router.protocol.events.ServiceAction.record`)."""

    def write(self, t_ns: int, node: int, app: str | None, record: Mapping[str, Any]) -> None:
        """Appends the record of an action.

        Args:
            app: name of the application that the action is for; None: it is for none.
        """
        head = {"event": record["event"], "t_ns": t_ns, "node": node}
        if app is not None:
            head["app"] = app
        self.append({**head, **record})
