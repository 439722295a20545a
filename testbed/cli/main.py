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

from testbed import __version__
from testbed.processes import end_like_ctrl_c, open_closed_streams
from testbed.runs.folders import others_only_read
from testbed.terminal.printable import reported

#: Command -> its line of help. The module `testbed.cli.COMMAND` has `add_arguments(parser)`, which declares
#: the arguments, and `main(arguments)`, which runs the command and returns the exit status. It imports
#: libraries that take long to load in `main`: help and faults of the command line come at once.
COMMANDS = {
    "check": "validate an experiment and say what it would do",
    "run": "emulate an experiment, account for every frame, and report",
    "simulate": "simulate an experiment in virtual time, with the same accounting and report",
    "sweep": "run an experiment over a grid of parameters and seeds, into one table with plots",
    "plot": "draw any key of a sweep against any parameter, with intervals",
    "figure": "reproduce a figure of the papers, and hold it against what the paper says",
    "live": "watch a run, in the terminal and on a page on this machine",
    "account": "account for a run again, from its captures and logs, on Spark or DuckDB",
    "report": "write the report of a run again",
    "compare": "show the keys of several runs side by side, and their curves over each other",
    "replay": "hand what live routers recorded to the protocol core again, and compare its answers",
    "query": "ask in SQL about the tables of a run (docs/tables.md)",
    "trace": "show the way of one message: hop by hop, where it was pruned and why, who got it",
    "export": "write a run into one file",
    "import": "unpack a run that export has written",
    "pub": "send messages from a node of a running emulation",
    "sub": "receive messages at a node of a running emulation",
    "exec": "run a program on a node of a running emulation",
    "shell": "open a shell on a node of a running emulation",
    "link": "take a link of a running emulation down or up",
    "node": "cut a node of a running emulation off, or join it to the network",
    "cli": "open a prompt for a running emulation: nodes, links, programs on nodes, pub, sub, faults",
    "attack": "attack the private frames of a run as a router without the key would",
    "wireshark": "let your Wireshark and tshark show CBCB frames",
    "match": "match messages against a table, in the language of the Siena Fast Forwarding driver",
    "keys": "make and rotate the keys of a network with privacy",
    "workload": "generate synthetic workloads",
    "doctor": "say what this machine can do, and how to mend what it cannot",
    "clean": "remove what dead runs, and dead processes' Spark, left on the machine",
}


def build_parser(argv: Sequence[str]) -> argparse.ArgumentParser:
    """The parser of a command line.

    Every command has its line of help; the arguments are declared of the command in `argv` alone, so that no
    other module is imported.
    """
    parser = argparse.ArgumentParser(
        prog="cbcb",
        description="A content-based network (CBCB) on a real, emulated network, captured and accounted for.",
        epilog="exit status: 0 verdict holds, 1 it does not, 2 bad input, 3 the machine lacks something, "
        "4 invalid: the machine was too slow, 5 the network was not brought up",
    )
    parser.add_argument("--version", action="version", version=f"cbcb {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    # The options before a command take no values: the first argument that is no option is the command.
    chosen = next((argument for argument in argv if not argument.startswith("-")), None)
    for name, text in COMMANDS.items():
        command = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        if name == chosen:
            import_module(f"testbed.cli.{name}").add_arguments(command)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command; returns its exit status."""
    return reported(lambda: _run(sys.argv[1:] if argv is None else argv))


def _run(argv: Sequence[str]) -> int:
    open_closed_streams()
    end_like_ctrl_c()
    arguments = build_parser(argv).parse_args(argv)
    if path := os.environ.get("PYTHONPATH"):
        # For children, an empty entry is the working folder, also under `-P`.
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, path.split(os.pathsep)))
    with others_only_read():
        return int(import_module(f"testbed.cli.{arguments.command}").main(arguments))


if __name__ == "__main__":
    sys.exit(main())
