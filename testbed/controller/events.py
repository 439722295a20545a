"""Events and actions of the controller's state machine.

`node` is a node id, `port` a switch port.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from router.wire.frames import BroadcastTable, Frame
from testbed.controller.liveness import Legacy


@dataclass(frozen=True, slots=True)
class SwitchConnected:
    """A node's switch has connected; `up_ports` are its ports that exist and are up.

    `emptied`: it had none of the rules that an earlier controller had installed.
    """

    node: int
    up_ports: frozenset[int]
    emptied: bool = False


@dataclass(frozen=True, slots=True)
class PipelineInstalled:
    """The switch has confirmed all rules of its pipeline."""

    node: int


@dataclass(frozen=True, slots=True)
class SwitchDisconnected:
    node: int


@dataclass(frozen=True, slots=True)
class PortChanged:
    """A port came up, went down, or was removed."""

    node: int
    port: int
    up: bool


@dataclass(frozen=True, slots=True)
class FrameReceived:
    """The router of `node` has sent a frame to the controller."""

    node: int
    frame: Frame


@dataclass(frozen=True, slots=True)
class TablesComputed:
    """The answer to ComputeTables.

    Nodes that are down have no table.
    """

    epoch: int
    tables: Mapping[int, BroadcastTable]


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed, and a deadline may have expired."""


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
    """Install the node's pipeline and report PipelineInstalled when the switch has confirmed it."""

    node: int


@dataclass(frozen=True, slots=True)
class SendFrame:
    """Send a frame to the router of `node`."""

    node: int
    frame: Frame


@dataclass(frozen=True, slots=True)
class ComputeTables:
    """Compute the broadcast tables and report TablesComputed.

    This may take seconds; other events may come first.
    """

    epoch: int
    down_links: frozenset[int]
    down_nodes: frozenset[int]


@dataclass(frozen=True, slots=True)
class Log:
    """Write a line to the controller's log: the event's name and its fields (values that JSON can hold)."""

    event: str
    fields: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Bequeath:
    """Keep the state for a controller that is started after this one, before the next action."""

    legacy: Legacy


Action = InstallPipeline | SendFrame | ComputeTables | Log | Bequeath
