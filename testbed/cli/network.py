"""A running emulation: programs on its nodes, its links and nodes, and the prompt."""

from __future__ import annotations

import os
import select
import shlex
import sys
from argparse import REMAINDER, ArgumentParser, Namespace
from contextlib import ExitStack
from pathlib import Path

from captures.rundir import RunLayout
from captures.rundir.capture_list import host_identity, link_identity
from testbed.cli.arguments import add_live_run, add_node
from testbed.emulation.control.running import NODE_VARIABLE, SOCKET_VARIABLE, Running
from testbed.support.errors import InputError
from testbed.support.names import host_name
from testbed.support.usage import allow_open_files
from testbed.terminal import put


def exec_arguments(parser: ArgumentParser) -> None:
    parser.usage = "cbcb exec [--run TAG] NODE -- PROGRAM [ARGUMENTS]"
    parser.epilog = (
        "The program runs in the network namespace of the node's host, as this user. "
        f"{NODE_VARIABLE} is the number of the node, {SOCKET_VARIABLE} the application socket of its router."
    )
    add_live_run(parser)
    add_node(parser)
    parser.add_argument("program", nargs=REMAINDER, help="the program and its arguments, after --")


def exec_command(arguments: Namespace) -> int:
    """Ends with the exit status of the program."""
    program = arguments.program[1:] if arguments.program[:1] == ["--"] else arguments.program
    if not program:
        raise InputError("exec: no program; expected NODE -- PROGRAM [ARGUMENTS]")
    running = Running.find(arguments.run)
    node = running.node(arguments.node)
    running.replace_process(node, program, f"exec {node} -- {shlex.join(program)}")


def shell_arguments(parser: ArgumentParser) -> None:
    parser.epilog = (
        "The shell ($SHELL, or bash) runs in the network namespace of the node's host. "
        f"{NODE_VARIABLE} is the number of the node, {SOCKET_VARIABLE} the application socket of its router."
    )
    add_live_run(parser)
    add_node(parser)


def shell_command(arguments: Namespace) -> int:
    """Ends with the exit status of the shell."""
    running = Running.find(arguments.run)
    node = running.node(arguments.node)
    shell = os.environ.get("SHELL") or "bash"
    # The files that bash reads at its start would replace the prompt, which names the node.
    argv = [shell, "--norc"] if Path(shell).name == "bash" else [shell]
    prompt = {"PS1": f"{host_name(node)}:\\w\\$ "}
    running.replace_process(node, argv, f"shell {node}", prompt)


def link_arguments(parser: ArgumentParser) -> None:
    add_live_run(parser)
    for end in ("u", "v"):
        parser.add_argument(end, metavar=end.upper(), help="a node at an end of the link: 3, r3, or its name")
    parser.add_argument(
        "state", choices=["up", "down", "set"], help="a link to a node that is down stays down"
    )
    parser.add_argument(
        "settings",
        nargs="*",
        default=[],  # or an error about `state` would name them
        metavar="NAME=VALUE",
        help="with set: loss, duplicate, reorder (percent), bandwidth (Mbit/s), delay, jitter (ms); 0 takes"
        " it away",
    )


def link_command(arguments: Namespace) -> None:
    """Returns when the link has its new state."""
    running = Running.find(arguments.run)
    running.change_link(arguments.u, arguments.v, arguments.state, arguments.settings)


def capture_arguments(parser: ArgumentParser) -> None:
    parser.usage = "cbcb capture [--run TAG] [--write FILE] [--node NODE] (U V [U V ...] | --all)"
    parser.epilog = (
        f"{_TO_WIRESHARK} The run keeps its own captures, which this command reads as they grow: a frame is "
        "shown about a second after it passed. Each link is an interface of the pcapng."
    )
    add_live_run(parser)
    parser.add_argument("ends", nargs="*", metavar="U V", help="the nodes at the ends of each link")
    parser.add_argument("--all", action="store_true", help="all links between routers")
    parser.add_argument(
        "--node",
        action="append",
        default=[],
        help="the link between switch and router of a node, as often as needed",
    )
    parser.add_argument("--write", type=Path, metavar="FILE", help="a new file, in place of standard output")


_TO_WIRESHARK = "To Wireshark: cbcb capture 0 1 | wireshark -k -i -"
#: Wall milliseconds between two looks at the captures.
_LOOK_MS = 250


def capture_command(arguments: Namespace) -> None:
    """Ends with the captures of the run, or when nothing reads standard output any more."""
    running = Running.find(arguments.run)
    run = RunLayout(Path(running.state.run_dir))
    pairs = list(zip(*2 * [iter(arguments.ends)], strict=False))
    links = running.topology.links if arguments.all else [running.link(u, v) for u, v in pairs]
    chosen = [link_identity(link) for link in links]
    chosen += [host_identity(running.node(node)) for node in arguments.node]
    if len(arguments.ends) % 2 or not chosen:
        raise InputError("capture: expected both ends of each link, such as 0 1, or --all or --node NODE")
    if arguments.write is None and sys.stdout.isatty():
        raise InputError(
            f"capture: pcapng is not for a terminal; expected --write FILE or a pipe. {_TO_WIRESHARK}"
        )
    # NumPy and pyarrow take a third of a second to load.
    from captures.pcap.following import followed

    allow_open_files(len(chosen))

    def ended() -> bool:
        return run.captures.exists() or not running.state.owner.alive()

    with ExitStack() as opened:
        output = sys.stdout.buffer
        if arguments.write is not None:
            try:
                # A new file: no capture of a run is written over.
                output = opened.enter_context(arguments.write.open("xb"))
            except (FileExistsError, FileNotFoundError) as error:
                raise InputError(f"--write {arguments.write}: {error.strerror}") from error
        reader = select.poll()
        reader.register(output, 0)
        for part in followed({each.name: run.capture(each.name) for each in chosen}, ended):
            output.write(part)
            if not part:
                output.flush()
                if reader.poll(_LOOK_MS):
                    return  # it has closed its end


def node_arguments(parser: ArgumentParser) -> None:
    add_live_run(parser)
    add_node(parser)
    parser.add_argument(
        "state",
        choices=["up", "down"],
        help="down: its host link and all its links go down; its router goes on",
    )


def node_command(arguments: Namespace) -> None:
    """Returns when the node has its new state."""
    running = Running.find(arguments.run)
    running.set_node(running.node(arguments.node), arguments.state)


def cli_arguments(parser: ArgumentParser) -> None:
    parser.epilog = (
        "help lists the commands of the prompt. Where the input is no terminal, commands are read from it, "
        "one a line, and shown before what they print; the first that fails ends the prompt."
    )
    add_live_run(parser)


def cli_command(arguments: Namespace) -> int:
    """Returns 0, or the status of the command that ended a prompt without a terminal."""
    from testbed.emulation.control.prompt import Prompt

    running = Running.find(arguments.run)
    put(f"cbcb: run {running.state.tag}, {running.state.run_dir}", file=sys.stderr)
    with Prompt(running, interactive=sys.stdin.isatty()) as prompt:
        prompt.cmdloop()
    return prompt.status
