"""What the controller's state machine is told, and what it asks for.

`node` is a node id, `port` a switch port.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from router.wire.frames import BroadcastTable, Frame


@dataclass(frozen=True, slots=True)
class SwitchConnected:
    """A node's switch has connected; `up_ports` are those of its ports that exist and are up."""

    node: int
    up_ports: frozenset[int]


@dataclass(frozen=True, slots=True)
class PipelineInstalled:
    """The switch has confirmed all rules of its pipeline."""

    node: int


@dataclass(frozen=True, slots=True)
class SwitchDisconnected:
    node: int


@dataclass(frozen=True, slots=True)
class PortChanged:
    """A port came up, or went down or away."""

    node: int
    port: int
    up: bool


@dataclass(frozen=True, slots=True)
class FrameReceived:
    """A frame that the router of `node` addressed to the controller."""

    node: int
    frame: Frame


@dataclass(frozen=True, slots=True)
class TablesComputed:
    """The answer to ComputeTables. Nodes that are down have no table."""

    epoch: int
    tables: Mapping[int, BroadcastTable]


@dataclass(frozen=True, slots=True)
class Tick:
    """Nothing but the time: a deadline may have passed."""


Event = (
    SwitchConnected
    | PipelineInstalled
    | SwitchDisconnected
    | PortChanged
    | FrameReceived
    | TablesComputed
    | Tick
)


@dataclass(frozen=True, slots=True)
class InstallPipeline:
    """Install the node's pipeline and say PipelineInstalled when the switch has confirmed it."""

    node: int


@dataclass(frozen=True, slots=True)
class SendFrame:
    """Send a frame to the router of `node`."""

    node: int
    frame: Frame


@dataclass(frozen=True, slots=True)
class ComputeTables:
    """Compute the broadcast tables and say TablesComputed. It may take seconds; events may come meanwhile."""

    epoch: int
    down_links: frozenset[int]
    down_nodes: frozenset[int]


@dataclass(frozen=True, slots=True)
class Log:
    """A line of the controller's log: the event's name and its fields (values that JSON can hold)."""

    event: str
    fields: Mapping[str, object] = field(default_factory=dict)


Action = InstallPipeline | SendFrame | ComputeTables | Log
