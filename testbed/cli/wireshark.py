"""`cbcb wireshark`: the dissector, the statistics and the profile for the user's Wireshark."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from testbed.errors import InputError
from testbed.terminal.printable import put
from testbed.wireshark import PROFILE, Installation, act_as_caller, folders, read_sources
from topos.loaders import load
from topos.model import TopologyError


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "action", choices=["install", "uninstall"], help="into your personal folders, or from them"
    )
    parser.add_argument("--print", action="store_true", help="only say where, and what is there")
    parser.add_argument(
        "--force", action="store_true", help="also overwrite or remove files that you changed or put there"
    )
    parser.add_argument(
        "--topology",
        type=Path,
        metavar="FILE",
        help="also show the names of the nodes of this topology, such as topology.json of a run folder",
    )


def main(arguments: Namespace) -> int:
    """Installs, or as the options say, removes or prints.

    Returns 0.
    """
    topology = None
    if arguments.topology is not None:
        try:
            topology = load(arguments.topology)
        except TopologyError as error:
            raise InputError(f"--topology: {error}") from error
    sources = read_sources(topology)  # perhaps with rights that are given up next
    act_as_caller()
    installation = Installation(sources, folders())
    uninstall = arguments.action == "uninstall"
    if arguments.print:
        for target in installation.files:
            put(f"{installation.state(target):9} {target}")
        return 0
    if uninstall:
        done = installation.uninstall(lambda target: _may(arguments, target, "remove"))
    else:
        done = installation.install(lambda target: _may(arguments, target, "overwrite"))
    for target, what in done.items():
        put(f"{what:9} {target}")
    kept = [target for target, what in done.items() if what == "kept"]
    if kept:
        raise InputError(
            f"not what we installed, and kept: {', '.join(map(str, kept))};"
            f" --force {'removes' if uninstall else 'overwrites'} them"
        )
    if uninstall:
        put("removed" if done else "nothing was installed")
    else:
        if "same" in done.values():
            put("what was the same already, without us, is not recorded as ours: uninstall asks first")
        put(f"Wireshark shows CBCB frames; colours, columns and filter buttons: wireshark -C {PROFILE}")
    return 0


def _may(arguments: Namespace, target: Path, what: str) -> bool:
    if arguments.force:
        return True
    if not sys.stdin.isatty():
        return False
    try:
        answer = input(f"{target} is not what we installed; {what} it? [y/N] ")
    except EOFError:
        put()
        return False
    return answer.strip().lower() in ("y", "yes")
