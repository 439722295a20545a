"""The controller's configuration file: a JSON object that the runner writes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from router.options import check, setting
from router.records.forms import parse_settings
from router.wire.authentication import SecurityMode
from testbed.controller.framework import FRAMEWORKS, RYU
from testbed.controller.trees import LAYERS
from testbed.support.errors import InputError
from topos import Topology
from topos.loaders import load


@dataclass(frozen=True)
class Settings:
    """The controller's configuration.

    Attributes:
        socket: Unix socket on which the switches connect. Only the controller's own user can connect; on a
            TCP port any local user could pass for a switch.
        log: file to which the events are appended, one JSON object a line.
        subtrees: the routing scheme needs to know the nodes in the subtrees of routers.
        network_keys: file of the network keys, if the mode needs any.
        signing_keys: folder of the signing keys, if issuers sign.
        incarnation: 32 bits, greater than at any earlier start under these keys.
        windows: file of the replay windows, which a restart finds again (None: in memory alone).
        ip: the switches forward IPv4 between the hosts.
        state: file of what a controller leaves for one that is started after it (None: it leaves nothing, and
            takes nothing over).
        clock: file of the page of the experiment clock, for the turns of the controller's loop (None: they
            are not measured).
        slot: of the controller on that page.
        parent_pid: the required parent process; the controller ends if its parent is, or becomes, another
            process.
    """

    topology: Path
    socket: Path
    log: Path
    framework: str = setting(RYU, "OpenFlow framework.", choices=FRAMEWORKS)
    layer: str = setting("spt", "Broadcast layer.", choices=LAYERS)
    subtrees: bool = False
    security: SecurityMode = setting("off", "How frames are authenticated.")
    network_keys: Path = Path("/dev/null")
    signing_keys: Path | None = None
    incarnation: int = 0
    windows: Path | None = None
    ip: bool = False
    state: Path | None = None
    clock: Path | None = None
    slot: int = 0
    parent_pid: int | None = None

    def __post_init__(self) -> None:
        check(self)

    @cached_property
    def network(self) -> Topology:
        return load(self.topology)


def read_settings(path: Path) -> Settings:
    """Reads a configuration file.

    Raises:
        InputError: the file, or the topology that it names, cannot be read or used; names the file and the
            key.
    """
    try:
        settings = parse_settings(Settings, path.read_bytes())
        settings.network  # noqa: B018 - the file is read now
        return settings
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: {error}") from error
