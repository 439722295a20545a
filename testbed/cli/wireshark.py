"""Installs the dissector, the statistics and the profile into a user's Wireshark folders.

Each installed file is recorded with its hash, so that a file that the user has changed, or that existed
before, is distinguished from an installed file and never overwritten or removed without consent.
"""

from __future__ import annotations

import hashlib
import json
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
#: In the profile's folder: path of each installed file -> SHA-256 of its content.
RECORD = "installed.json"
#: In the profile's folder: the topology whose nodes have names.
_TOPOLOGY = RunLayout(Path()).topology.name
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


class Installation:
    """The installed files in a user's folders.

    Attributes:
        files: target -> content.
    """

    def __init__(self, sources: Sources, where: Folders) -> None:
        self.where = where
        self.files = {where.plugins / name: content for name, content in sources.plugins.items()}
        self.files |= {where.profile / name: content for name, content in sources.profile.items()}
        if _TOPOLOGY in sources.profile:
            preference = f"cbcb.topology: {where.profile / _TOPOLOGY}\n"
            self.files[where.profile / "preferences"] += preference.encode()
        self._record = where.profile / RECORD
        self._installed = self._read_record()

    def state(self, target: Path) -> str:
        """Returns the state of a file that is or was to be installed.

        `missing`, `current`, `outdated` (installed by another version), `same` (made by the user, with the
        content that would be installed) or `foreign` (made or changed by the user).
        """
        try:
            content = target.read_bytes()
        except FileNotFoundError:
            return "missing"
        except OSError as error:
            raise InputError(f"{target}: {error.strerror}") from error
        if content == self.files.get(target):
            return "current" if str(target) in self._installed else "same"
        return "outdated" if self._installed.get(str(target)) == _hash(content) else "foreign"

    def install(self, may_overwrite: Callable[[Path], bool]) -> dict[Path, str]:
        """Writes files that are missing or outdated; removes files that only an earlier version installed.

        Args:
            may_overwrite: called for every foreign file that is to change.

        Returns:
            The result for each file: `written`, `current`, `same` (existed, not installed by this program),
                `kept` or `removed`.

        Raises:
            InputError: a file or folder cannot be written.
        """
        recorded = dict(self._installed)
        try:
            return self._bring(self.files, may_overwrite)
        finally:
            # Also after an error or Ctrl-C at a question: a file that is not recorded counts as foreign.
            if self._installed != recorded:
                _write(self._record, (json.dumps(self._installed, indent=1) + "\n").encode())

    def uninstall(self, may_remove: Callable[[Path], bool]) -> dict[Path, str]:
        """Removes the installed files, and the profile's folder if it is then empty.

        Returns:
            The result for each file that existed: `removed` or `kept`.

        Raises:
            InputError: a file cannot be removed.
        """
        done = self._bring({}, may_remove)
        _remove(self._record)
        if self.where.profile.is_dir() and not any(self.where.profile.iterdir()):
            self.where.profile.rmdir()
        return done

    def _bring(self, contents: dict[Path, bytes], may_change: Callable[[Path], bool]) -> dict[Path, str]:
        """Writes the files with contents, and removes all others that are shipped or recorded."""
        done = {}
        retired = sorted(set(map(Path, self._installed)) - set(self.files))
        for target in [*self.files, *retired]:
            state, content = self.state(target), contents.get(target)
            if state == "same" and content is not None:
                done[target] = "same"
            elif state in ("same", "foreign") and not may_change(target):
                done[target] = "kept"
            elif content is None:
                if state != "missing":
                    _remove(target)
                    done[target] = "removed"
            else:
                if state != "current":
                    _write(target, content)
                self._installed[str(target)] = _hash(content)
                done[target] = "current" if state == "current" else "written"
            if target in retired:  # a kept file counts as foreign afterwards
                del self._installed[str(target)]
        return done

    def _read_record(self) -> dict[str, str]:
        try:
            record = json.loads(self._record.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return record if isinstance(record, dict) else {}


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _write(target: Path, content: bytes) -> None:
    temporary = target.with_name(f".{target.name}.new")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(content)
        temporary.replace(target)
    except OSError as error:
        raise InputError(f"cannot write {target}: {error.strerror}") from error


def _remove(target: Path) -> None:
    try:
        target.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"cannot remove {target}: {error.strerror}") from error
