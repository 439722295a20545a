"""The counters of a router, as a live router writes them and a simulated router reports them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any, NotRequired, TypedDict, Unpack

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
        Annotated[int, "of `messages_received`, those that compiled code handled; live routers only"]
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


def router_counters(core: Counters, **link: Unpack[LinkCounters]) -> dict[str, Any]:
    """Returns all counters of a router.

    Args:
        core: the counters of the protocol core; its drops, and the frames that it refused, are added.
        link: the other counters.
    """
    dropped = Counter(link.pop("dropped", {})) + core.dropped
    refused = {name: {**reasons} for name, reasons in link.pop("refused", {}).items()}
    for (name, reason), count in sorted(core.refused.items()):
        refused.setdefault(name, {})[reason] = count
    return {**link, "dropped": dropped, **({"refused": refused} if refused else {}), **core.as_dict()}
