"""Installs the dissector, the statistics and the profile into a user's Wireshark folders.

A file with other content than the installed file would have is never overwritten or removed without consent.
"""

from __future__ import annotations

import os
import pwd
import re
import subprocess
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Literal

from captures.rundir import RunLayout
from router import wire
from router.records.json_file import written_whole
from router.wire.header import CONTROLLER_DESTINATION, CONTROLLER_SOURCE, ROUTER_DESTINATION, node_address
from testbed.support.errors import InputError, MachineError, reading
from testbed.terminal import put
from topos import Topology
from topos.loaders import load, to_json

#: Name of the profile: `wireshark -C CBCB`.
PROFILE = "CBCB"
#: In the profile's folder: the topology whose nodes have names.
_TOPOLOGY = RunLayout(Path()).topology.name
#: In the profile's folder: files of an installation with a topology, and of version 0.2.0.
_OF_OTHERS = (_TOPOLOGY, "installed.json")
#: Folder of the user's Lua plugins, and that of the profile; and the files to install in each, by name.
Folders = dict[Literal["plugins", "profile"], Path]
Sources = dict[Literal["plugins", "profile"], dict[str, bytes]]
Files = dict[Path, bytes | None]
_WIRE = Path(wire.__file__).parent / "wireshark"
_TSHARK_TIMEOUT_S = 30.0


def wireshark_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "action", choices=["install", "uninstall"], help="into your personal folders, or from them"
    )
    parser.add_argument("--print", action="store_true", help="only say where, and what is there")
    parser.add_argument(
        "--force", action="store_true", help="also overwrite or remove files of other content"
    )
    parser.add_argument(
        "--topology",
        type=Path,
        metavar="FILE",
        help="also show the names of the nodes of this topology, such as topology.json of a run folder",
    )


def wireshark_command(arguments: Namespace) -> None:
    """Installs, or as the options say, removes or prints."""
    topology = None
    if arguments.topology is not None:
        with reading("--topology"):
            topology = load(arguments.topology)
    sources = read_sources(topology)  # perhaps with rights that are given up next
    act_as_caller()
    where = folders()
    files = files_of(sources, where)
    remove = arguments.action == "uninstall"
    if arguments.print:
        for target, content in files.items():
            if content is not None:
                found = _read(target)
                state = "missing" if found is None else "current" if found == content else "different"
                put(f"{state:9} {target}")
        return
    verb = "remove" if remove else "overwrite"
    done = bring(files, arguments.force, remove=remove)
    if remove and where["profile"].is_dir() and not any(where["profile"].iterdir()):
        where["profile"].rmdir()
    for target, what in done.items():
        put(f"{what:9} {target}")
    kept = [target for target, what in done.items() if what == "kept"]
    if kept:
        raise InputError(f"of other content, and kept: {', '.join(map(str, kept))}; --force {verb}s them")
    if remove:
        put("removed" if done else "nothing was installed")
    elif (reason := why_not_for_root()) is not None:
        put(f"note: {reason}", file=sys.stderr)
    else:
        put(f"Wireshark shows CBCB frames; colours, columns and filter buttons: wireshark -C {PROFILE}")


def read_sources(topology: Topology | None = None) -> Sources:
    """Reads the files that this project ships, and adds the names of addresses.

    Args:
        topology: the nodes of the network whose captures are shown; None: nodes have no names.
    """
    plugins = {path.name: path.read_bytes() for path in sorted(_WIRE.glob("*.lua"))}
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
    return {"plugins": plugins, "profile": profile}


def folders() -> Folders:
    """Returns the user's folders, as reported by tshark.

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
    return {"plugins": plugins, "profile": configuration / "profiles" / PROFILE}


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


def files_of(sources: Sources, where: Folders) -> Files:
    """Returns the content of each file of an installation; None: of another one, which this one removes."""
    profile = where["profile"]
    files: Files = {profile / name: None for name in _OF_OTHERS}
    for folder, contents in sources.items():
        files |= {where[folder] / name: content for name, content in contents.items()}
    if _TOPOLOGY in sources["profile"]:
        preference = f"cbcb.topology: {profile / _TOPOLOGY}\n"
        files[profile / "preferences"] = sources["profile"]["preferences"] + preference.encode()
    return files


def bring(files: Files, force: bool, *, remove: bool = False) -> dict[Path, str]:
    """Writes the files that are missing or different, or removes all.

    Args:
        force: also where a file has other content than that of this installation.

    Returns:
        The result for each file that is or was there: `written`, `current`, `kept` or `removed`.

    Raises:
        OSError: a file or folder cannot be read or changed.
    """
    done: dict[Path, str] = {}
    for target, shipped in files.items():
        found, wanted = _read(target), None if remove else shipped
        if found == wanted:
            if found is not None:
                done[target] = "current"
        elif found not in (None, shipped) and shipped is not None and not force:
            done[target] = "kept"
        elif wanted is None:
            target.unlink()
            done[target] = "removed"
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            with written_whole(target) as file:
                file.write(wanted)
            done[target] = "written"
    return done


def _read(target: Path) -> bytes | None:
    try:
        return target.read_bytes()
    except FileNotFoundError:
        return None
