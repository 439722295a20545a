"""`cbcb`: the one entry point.

Parses the command line and turns errors into one clear line and a status.

Exit status: 0 the verdict holds (or the command did what it was asked), 1 it does not, 2 bad input,
3 the machine lacks something, 4 the run is invalid, because the machine was too slow, 5 the network was not
brought up (a part failed, or the user interrupted it), 130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from testbed import __version__
from testbed.support.processes import end_like_ctrl_c, find_administration, open_closed_streams
from testbed.terminal import reported

#: Command -> its module in `testbed.cli`, and its line of help. `COMMAND_arguments(parser)` of the module
#: declares the arguments, if any. `COMMAND_command(arguments)` runs the command and returns the status, or
#: None for 0; it imports libraries that take long to load: help and faults of the command line come at once.
COMMANDS = {
    "new": ("editor", "write a commented experiment file, from options or from questions"),
    "check": ("check", "validate an experiment and say what it would do"),
    "topology": ("check", "write the topology of an experiment or a run as GraphML, DOT or Mermaid"),
    "run": ("run", "emulate an experiment, account for every frame, and report"),
    "simulate": ("run", "simulate an experiment in virtual time, with the same accounting and report"),
    "sweep": (
        "evaluation",
        "run an experiment over a grid of parameters and seeds, into one table with plots",
    ),
    "plot": ("evaluation", "draw any key of a sweep against any parameter, with intervals"),
    "figure": ("evaluation", "reproduce a figure of the papers, and hold it against what the paper says"),
    "live": ("runs", "watch a run, in the terminal and on a page on this machine"),
    "account": ("runs", "account for a run again, from its captures and logs, on Spark or DuckDB"),
    "report": ("runs", "write the report of a run again"),
    "compare": ("runs", "show the keys of several runs side by side, and their curves over each other"),
    "replay": (
        "replay",
        "hand what live routers recorded to the protocol core again, and compare its answers",
    ),
    "query": ("questions", "ask in SQL about the tables of a run (docs/reference/tables.md)"),
    "packets": ("packets", "write packets, flows or frames of any captures as Parquet or CSV"),
    "trace": (
        "questions",
        "show the way of one message: hop by hop, where it was pruned and why, who got it",
    ),
    "export": ("runs", "write a run or a sweep into one file"),
    "import": ("runs", "unpack a run or a sweep that export has written"),
    "pub": ("applications", "send messages from a node of a running emulation"),
    "sub": ("applications", "receive messages at a node of a running emulation"),
    "exec": ("network", "run a program on a node of a running emulation"),
    "shell": ("network", "open a shell on a node of a running emulation"),
    "capture": ("network", "show the frames of links of a running emulation to Wireshark or tshark"),
    "link": ("network", "take a link of a running emulation down or up"),
    "node": ("network", "cut a node of a running emulation off, or join it to the network"),
    "cli": (
        "network",
        "open a prompt for a running emulation: nodes, links, programs on nodes, pub, sub, faults",
    ),
    "attack": ("evaluation", "attack the private frames of a run as a router without the key would"),
    "wireshark": ("wireshark", "let your Wireshark and tshark show CBCB frames"),
    "match": (
        "workloads",
        "match messages against a table, in the language of the Siena Fast Forwarding driver",
    ),
    "keys": ("keys", "make and rotate the keys of a network with privacy"),
    "workload": ("workloads", "generate synthetic workloads"),
    "completion": ("editor", "print what makes bash, zsh or fish complete commands, options and names"),
    "doctor": ("check", "say what this machine can do, and how to mend what it cannot"),
    "clean": ("check", "remove what dead runs, and dead processes' Spark, left on the machine"),
}


class Parser(argparse.ArgumentParser):
    """A parser whose error about an unknown argument shows the usage of the innermost command."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        found, left_over = super().parse_known_args(args, namespace)
        if left_over:
            self.error(f"unrecognized arguments: {' '.join(left_over)}")
        return found, left_over


def build_parser(argv: Sequence[str]) -> argparse.ArgumentParser:
    """The parser of a command line.

    Every command has its line of help; the arguments are declared of the command in `argv` alone, so that no
    other module is imported.
    """
    parser = Parser(
        prog="cbcb",
        description="A content-based network (CBCB) on a real, emulated network, captured and accounted for.",
        epilog="exit status: 0 verdict holds, 1 it does not, 2 bad input, 3 the machine lacks something, "
        "4 invalid: the machine was too slow, 5 the network was not brought up",
    )
    parser.add_argument("--version", action="version", version=f"cbcb {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    # The options before a command take no values: the first argument that is no option is the command.
    chosen = next((argument for argument in argv if not argument.startswith("-")), None)
    for name, (module, text) in COMMANDS.items():
        command = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        if name == chosen and (declare := _function(module, f"{name}_arguments")) is not None:
            declare(command)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    return reported(lambda: _run(sys.argv[1:] if argv is None else argv))


def _run(argv: Sequence[str]) -> int:
    from testbed.results.folders import others_only_read

    if "_ARGCOMPLETE" in os.environ:
        from testbed.cli.editor import complete

        complete(build_parser(os.environ.get("COMP_LINE", "").split()[1:]))
    open_closed_streams()
    end_like_ctrl_c()
    arguments = build_parser(argv).parse_args(argv)
    find_administration()
    if path := os.environ.get("PYTHONPATH"):
        # For children, an empty entry is the working folder, also under `-P`.
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, path.split(os.pathsep)))
    with others_only_read():
        module, _ = COMMANDS[arguments.command]
        return int(_function(module, f"{arguments.command}_command")(arguments) or 0)


def _function(module: str, name: str) -> Any:
    return getattr(import_module(f"testbed.cli.{module}"), name, None)


if __name__ == "__main__":
    sys.exit(main())
