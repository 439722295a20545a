"""The counters of a router, as a live router writes them and a simulated router reports them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, NotRequired, TypedDict

from router.protocol.counters import Counters

#: Names of the counters of the protocol core, which are reported together with those of `LinkCounters`.
CORE_COUNTERS = tuple(Counters().as_dict())


class LinkCounters(TypedDict):
    """The counters of a router's link to the switch, of its applications and of its process.

    The counters of frames and bytes count Ethernet frames.
    """

    frames_received: Annotated[Mapping[str, int], "frames received, by frame type"]
    frames_sent: Annotated[Mapping[str, int], "frames sent, by frame type"]
    bytes_received: NotRequired[Annotated[int, "bytes of the frames received"]]
    bytes_sent: NotRequired[Annotated[int, "bytes of the frames sent"]]
    dropped: NotRequired[
        Annotated[
            Mapping[str, int],
            "Ethernet frames that could not be used and protocol frames that the core dropped, by reason",
        ]
    ]
    refused: NotRequired[
        Annotated[
            Mapping[str, Mapping[str, int]],
            "Ethernet frames that are among `dropped` because they were not authentic, by the node in whose "
            "name they came (`controller`; `others`: of further ones) and by reason; with `[security]` alone",
        ]
    ]
    socket_drops: NotRequired[Annotated[int, "frames that the kernel dropped at the socket of the router"]]
    messages_compiled: NotRequired[
        Annotated[
            int,
            "of `messages_received`, those that compiled code handled; live routers only",
        ]
    ]
    applications_disconnected_slow: NotRequired[
        Annotated[int, "applications disconnected because they did not read"]
    ]
    records_lost: NotRequired[
        Annotated[int, "records of applications that could not be written, on a full disk for instance"]
    ]
    engine_bytes: NotRequired[
        Annotated[
            int, "memory of the matching engine's table and index; live routers with the compiled engine only"
        ]
    ]
    cpu_user_s: NotRequired[Annotated[float, "CPU seconds in user mode; live routers only"]]
    cpu_system_s: NotRequired[Annotated[float, "CPU seconds in the kernel; live routers only"]]


def router_counters(
    core: Counters,
    *,
    frames_received: Mapping[str, int],
    frames_sent: Mapping[str, int],
    bytes_received: int,
    bytes_sent: int,
    dropped: Mapping[str, int],
    socket_drops: int = 0,
    applications_disconnected_slow: int = 0,
    records_lost: int = 0,
    messages_compiled: int | None = None,
    engine_bytes: int | None = None,
    refused: Mapping[str, Mapping[str, int]] | None = None,
) -> dict[str, Any]:
    """Returns all counters of a router.

    Args:
        core: the counters of the protocol core; its drops are added to `dropped`.
        dropped: Ethernet frames that could not be used, by reason.
    """
    drops = {reason: dropped.get(reason, 0) + core.dropped[reason] for reason in [*dropped, *core.dropped]}
    link = LinkCounters(
        frames_received=dict(frames_received),
        frames_sent=dict(frames_sent),
        bytes_received=bytes_received,
        bytes_sent=bytes_sent,
        dropped={reason: count for reason, count in drops.items() if count},
        socket_drops=socket_drops,
        applications_disconnected_slow=applications_disconnected_slow,
        records_lost=records_lost,
    )
    if messages_compiled is not None:
        link["messages_compiled"] = messages_compiled
    if engine_bytes is not None:
        link["engine_bytes"] = engine_bytes
    names: dict[str, dict[str, int]] = {name: dict(reasons) for name, reasons in (refused or {}).items()}
    for (name, reason), count in sorted(core.refused.items()):
        names.setdefault(name, {})[reason] = count
    if names:
        link["refused"] = names
    return {**link, **core.as_dict()}
