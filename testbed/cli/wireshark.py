"""Installs the dissector, the statistics and the profile into a user's Wireshark folders.

A file with other content than the installed file would have is never overwritten or removed without consent.
"""

from __future__ import annotations

import os
import pwd
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from captures.rundir import RunLayout
from router import wire
from router.wire.header import (
    CONTROLLER_DESTINATION,
    CONTROLLER_SOURCE,
    ROUTER_DESTINATION,
    node_address,
)
from testbed.support.errors import InputError, MachineError
from topos import Topology
from topos.loaders import to_json

#: Name of the profile: `wireshark -C CBCB`.
PROFILE = "CBCB"
#: In the profile's folder: the topology whose nodes have names.
_TOPOLOGY = RunLayout(Path()).topology.name
#: In the profile's folder: files of an installation with a topology, and of version 0.2.0.
_OF_OTHERS = (_TOPOLOGY, "installed.json")
_WIRE = Path(wire.__file__).parent / "wireshark"
_TSHARK_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Folders:
    """The folders of the user's Lua plugins and Wireshark profiles."""

    plugins: Path
    profile: Path


@dataclass(frozen=True, slots=True)
class Sources:
    """The files to install, as name -> content."""

    plugins: dict[str, bytes]
    profile: dict[str, bytes]


def read_sources(topology: Topology | None = None) -> Sources:
    """Reads the files that this project ships, and adds the names of addresses.

    Args:
        topology: the nodes of the network whose captures are shown; None: nodes have no names.
    """
    profile = {path.name: path.read_bytes() for path in sorted((_WIRE / "profile").iterdir())}
    names = {
        CONTROLLER_SOURCE: "controller",
        CONTROLLER_DESTINATION: "to-controller",
        ROUTER_DESTINATION: "to-router",
    }
    if topology is not None:
        profile[_TOPOLOGY] = to_json(topology).encode()
        names |= {node_address(node.id): node.name or f"node-{node.id}" for node in topology.nodes}
    # A name ends at a blank, and `#` begins a comment.
    words = {address.hex(":"): re.sub(r"[\s#]", "_", name) for address, name in names.items()}
    profile["ethers"] = "".join(f"{address}\t{name}\n" for address, name in words.items()).encode()
    return Sources({path.name: path.read_bytes() for path in sorted(_WIRE.glob("*.lua"))}, profile)


def folders() -> Folders:
    """Returns the personal folders, as reported by tshark.

    Raises:
        MachineError: tshark is missing or does not name them.
    """
    named = _named_folders()
    try:
        configuration = Path(named["Personal configuration"])
        plugins = Path(named.get("Personal Lua Plugins") or named["Personal Plugins"])
    except KeyError as error:
        raise MachineError(
            f"`tshark -G folders` names no {error}; is this Wireshark built without Lua?"
        ) from error
    return Folders(plugins, configuration / "profiles" / PROFILE)


def why_not_for_root() -> str | None:
    """Says why root's Wireshark does not load the installed dissector; None: it does, or the user is another.

    From Wireshark 4.4 on, Lua files in root's own folders are passed over in silence.

    Raises:
        MachineError: tshark is missing.
    """
    if os.geteuid() != 0 or "\tcbcb\t" in _tshark("-G", "protocols").replace("\n", "\t"):
        return None
    everybody = _named_folders().get("Global Lua Plugins", "the folder of global Lua plugins")
    return (
        f"this Wireshark reads no Lua files in root's folders: copy the two to {everybody}, "
        "or start it as another user, and install the files for that user"
    )


def _named_folders() -> dict[str, str]:
    """The folders of `tshark -G folders`, by name."""
    lines = (line.partition(":") for line in _tshark("-G", "folders").splitlines())
    return {name.strip(): path.strip() for name, _, path in lines}


def _tshark(*arguments: str) -> str:
    try:
        return subprocess.run(
            ["tshark", *arguments], capture_output=True, text=True, timeout=_TSHARK_TIMEOUT_S, check=False
        ).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MachineError(f"cannot run tshark ({error}): apt-get install -y tshark") from error


def act_as_caller() -> None:
    """Under sudo, changes to the user who called it, who owns the Wireshark folders."""
    if os.geteuid() != 0 or "SUDO_UID" not in os.environ:
        return
    try:
        user = pwd.getpwuid(int(os.environ["SUDO_UID"]))
    except (KeyError, ValueError):
        return
    os.initgroups(user.pw_name, user.pw_gid)
    os.setgid(user.pw_gid)
    os.setuid(user.pw_uid)
    os.environ["HOME"] = user.pw_dir
    os.environ.pop("XDG_CONFIG_HOME", None)


@dataclass(frozen=True)
class Installation:
    """The installed files in a user's folders.

    Attributes:
        files: target -> content; None: a file of another installation that this one removes.
    """

    where: Folders
    files: dict[Path, bytes | None]

    @classmethod
    def of(cls, sources: Sources, where: Folders) -> Installation:
        files: dict[Path, bytes | None] = {where.profile / name: None for name in _OF_OTHERS}
        files |= {where.plugins / name: content for name, content in sources.plugins.items()}
        files |= {where.profile / name: content for name, content in sources.profile.items()}
        if _TOPOLOGY in sources.profile:
            preference = f"cbcb.topology: {where.profile / _TOPOLOGY}\n"
            files[where.profile / "preferences"] = sources.profile["preferences"] + preference.encode()
        return cls(where, files)

    def state(self, target: Path) -> str:
        """Returns `missing`, `current`, or `different`: of another version, or changed by the user."""
        content = _read(target)
        return "missing" if content is None else "current" if content == self.files[target] else "different"

    def bring(self, may_change: Callable[[Path], bool], *, remove: bool = False) -> dict[Path, str]:
        """Writes the files that are missing or different, or removes all and the profile's folder if it is
        then empty.

        Args:
            may_change: called for every file with other content than that of this installation.

        Returns:
            The result for each file that is or was there: `written`, `current`, `kept` or `removed`.

        Raises:
            InputError: a file or folder cannot be read or changed.
        """
        done: dict[Path, str] = {}
        for target, shipped in self.files.items():
            found, wanted = _read(target), None if remove else shipped
            if found == wanted:
                if found is not None:
                    done[target] = "current"
            elif found not in (None, shipped) and shipped is not None and not may_change(target):
                done[target] = "kept"
            else:
                _put(target, wanted)
                done[target] = "removed" if wanted is None else "written"
        if remove and self.where.profile.is_dir() and not any(self.where.profile.iterdir()):
            self.where.profile.rmdir()
        return done


def _read(target: Path) -> bytes | None:
    try:
        return target.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"{target}: {error.strerror}") from error


def _put(target: Path, content: bytes | None) -> None:
    """Writes a file; None: removes it."""
    temporary = target.with_name(f".{target.name}.new")
    try:
        if content is None:
            target.unlink()
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(content)
        temporary.replace(target)
    except OSError as error:
        raise InputError(f"cannot change {target}: {error.strerror}") from error
