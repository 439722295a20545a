"""`cbcb`: the one entry point. Parses the command line and turns errors into one clear line and a status.

Exit status: 0 the verdict holds (or the command did what it was asked), 1 it does not, 2 bad input,
3 the machine lacks something, 130 interrupted.
"""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from router.matching.factory import DEFAULT, ENGINES
from testbed.cli.arguments import master, moment_s, not_negative, port, positive, timeout_s
from testbed.cli.streams import open_closed_streams
from testbed.cli.workload_arguments import add_arguments as add_matching_arguments
from testbed.errors import InputError, TestbedError, run_folder_errors
from testbed.full_disk import FULL
from testbed.runs.folders import DEFAULT_RUNS
from testbed.signals import end_like_ctrl_c

#: Port of the page of a live run.
DEFAULT_PORT = 8642

VERSION = "0.1.0"
INTERRUPTED = 130
#: Faults of a path that the user gave, or of the rights on it.
_PATH_ERRORS = frozenset(
    {
        errno.EACCES,
        errno.EPERM,
        errno.EROFS,
        errno.EISDIR,
        errno.ENOTDIR,
        errno.ENAMETOOLONG,
        errno.ELOOP,
    }
)


def build_parser() -> argparse.ArgumentParser:
    """The parser; each subcommand names the module whose `main(arguments)` runs it."""
    parser = argparse.ArgumentParser(
        prog="cbcb",
        description="A content-based network (CBCB) on a real, emulated network, captured and accounted for.",
        epilog="exit status: 0 verdict holds, 1 it does not, 2 bad input, 3 the machine lacks something",
    )
    parser.add_argument("--version", action="version", version=f"cbcb {VERSION}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, module: str, text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        sub.set_defaults(module=f"testbed.cli.{module}")
        return sub

    check = command("check", "check", "validate an experiment and say what it would do")
    _experiment_arguments(check)

    run = command("run", "run", "emulate an experiment, account for every frame, and report")
    _experiment_arguments(run)
    _runs_argument(run)
    run.add_argument(
        "--datapath", choices=["auto", "kernel", "user"], default="auto", help="Open vSwitch datapath (auto)"
    )
    run.add_argument(
        "--hold",
        action="store_true",
        help="keep the network up until Ctrl-C, which then ends the workload, not the run",
    )
    run.add_argument(
        "--live",
        action="store_true",
        help="show traffic and deliveries while it runs, here and on a page on this machine",
    )
    _port_argument(run, "--live-port")
    _master_argument(run, "local[2]")
    run.add_argument(
        "--no-account",
        action="store_true",
        help="end after the emulation; `cbcb account` does the rest later",
    )

    simulate = command(
        "simulate", "simulate", "simulate an experiment in virtual time, with the same accounting and report"
    )
    _experiment_arguments(simulate)
    _runs_argument(simulate)
    _master_argument(simulate, "local[2]")
    simulate.add_argument(
        "--captures",
        choices=("all", "links", "none"),
        default="all",
        help="captures to keep: all, those of links between routers, or none (all); the accounting knows of "
        "traffic what they hold",
    )
    simulate.add_argument(
        "--no-account",
        action="store_true",
        help="end after the simulation; `cbcb account` does the rest later",
    )

    live = command("live", "live", "watch a run, in the terminal and on a page on this machine")
    _run_argument(live)
    _port_argument(live, "--port")
    live.add_argument("--until-end", action="store_true", help="end with the run, not only with Ctrl-C")
    _master_argument(live, "local[1]")

    account = command("account", "account", "account for a run again, from its captures and logs, on Spark")
    _run_argument(account)
    _master_argument(account, "local[2]")

    report = command("report", "report", "write the report of a run again")
    _run_argument(report)

    replay = command(
        "replay",
        "replay",
        "hand what live routers recorded to the protocol core again, and compare its answers",
    )
    _run_argument(replay)
    replay.add_argument(
        "--node", action="append", default=[], metavar="N", help="only this router, such as 3 or r3 (all)"
    )
    instead = replay.add_mutually_exclusive_group()
    instead.add_argument(
        "--show", action="store_true", help="print what the routers were given and answered, instead"
    )
    instead.add_argument(
        "--at", type=moment_s, metavar="S", help="print the routing tables at S experiment seconds, instead"
    )

    query = command("query", "query", "ask in SQL about the tables of a run (docs/tables.md)")
    query.usage = "cbcb query [RUN] SQL [options]\n       cbcb query [RUN] --tables"
    _run_argument(query)
    query.add_argument(
        "sql", nargs="?", metavar="SQL", help="a question in DuckDB's SQL, such as 'SELECT * FROM messages'"
    )
    query.add_argument("--tables", action="store_true", help="list the tables and what their columns mean")
    query.add_argument(
        "--format",
        choices=["table", "csv", "json", "parquet"],
        default="table",
        help="aligned columns (table), or json: one object a line",
    )
    query.add_argument("--output", "-o", type=Path, metavar="FILE", help="write the answer there")
    query.add_argument(
        "--rows", type=not_negative, default=200, metavar="N", help="rows of an aligned table; 0: all (200)"
    )
    query.add_argument(
        "--master",
        type=master,
        metavar="URL",
        help="ask Spark SQL there instead, such as local[2]; it takes seconds to start",
    )

    trace = command(
        "trace", "trace", "show the way of one message: hop by hop, where it was pruned and why, who got it"
    )
    trace.usage = (
        "cbcb trace [RUN] SOURCE:NUMBER [options]\n       cbcb trace [RUN] [--where PREDICATE] [--missed]"
    )
    _run_argument(trace)
    trace.add_argument(
        "message",
        nargs="?",
        metavar="SOURCE:NUMBER",
        help="a message, such as 3:17; without one, they are listed",
    )
    trace.add_argument(
        "--where", metavar="PREDICATE", help="list messages that it selects, for example 'price > 100'"
    )
    trace.add_argument("--missed", action="store_true", help="list messages that somebody missed")
    trace.add_argument("--json", action="store_true", help="as JSON; a list: one object a line")
    trace.add_argument("--full", action="store_true", help="do not cut long lines to the terminal")

    pub = command("pub", "talk", "send messages from a node of a running emulation")
    _node_arguments(pub)
    pub.add_argument("message", nargs="+", help="""a message, for example 'dest = "ORD", price = 300'""")

    sub = command("sub", "talk", "receive messages at a node of a running emulation")
    _node_arguments(sub)
    sub.add_argument(
        "predicate",
        nargs="+",
        help="""a predicate, for example 'dest = "ORD" and price < 400'; each is a subscription""",
    )
    sub.add_argument("--count", type=positive, help="end after so many messages")
    sub.add_argument("--timeout-s", type=timeout_s, help="end after so many seconds")

    wireshark = command("wireshark", "wireshark", "let your Wireshark and tshark show CBCB frames")
    wireshark.add_argument("action", choices=["install"], help="install into your personal folders")
    wireshark.add_argument("--uninstall", action="store_true", help="remove what was installed")
    wireshark.add_argument("--print", action="store_true", help="only say where, and what is there")
    wireshark.add_argument(
        "--force", action="store_true", help="also overwrite or remove files that you changed or put there"
    )

    text = "match messages against a table, in the language of the Siena Fast Forwarding driver"
    match = command("match", "match", text)
    match.add_argument("file", nargs="?", default="-", help="the statements; - is standard input (-)")
    match.add_argument(
        "--engine",
        default=DEFAULT,
        metavar="NAME",
        help=f"{', '.join(sorted(ENGINES))} ({DEFAULT}); counting has options: counting:rounds=10,bloom=off",
    )
    match.add_argument(
        "--stats", action="store_true", help="the table's size, build and time per message, to standard error"
    )

    workload = commands.add_parser(
        "workload", help="generate synthetic workloads", description="Generate synthetic workloads."
    )
    workloads = workload.add_subparsers(dest="workload", required=True, metavar="KIND")
    text = "generate a forwarding table and messages, to measure matching with"
    matching = workloads.add_parser("match", help=text, description=text[0].upper() + text[1:] + ".")
    matching.set_defaults(module="testbed.cli.workload")
    add_matching_arguments(matching)

    command("doctor", "doctor", "say what this machine can do, and how to mend what it cannot")
    command("clean", "clean", "remove what dead runs, and dead processes' Spark, left on the machine")
    return parser


def _experiment_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "experiment",
        nargs="?",
        default="default",
        help="an experiment file, or the name of a shipped one (default)",
    )
    parser.add_argument(
        "--topology",
        metavar="T",
        help="another topology: a file, or a generator such as waxman,100 or grid,4,5",
    )
    parser.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        dest="overrides",
        help="another value for a key of the file, for example time_scale=30 or workload.senders_percent=50",
    )


def _runs_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--runs", type=Path, default=DEFAULT_RUNS, metavar="DIR", help="folder of run folders (captures/runs)"
    )


def _run_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", nargs="?", help="a run folder, or its name (the newest)")
    _runs_argument(parser)


def _master_argument(parser: argparse.ArgumentParser, usual: str) -> None:
    parser.add_argument("--master", type=master, default=usual, help=f"Spark master URL ({usual})")


def _port_argument(parser: argparse.ArgumentParser, name: str) -> None:
    parser.add_argument(
        name,
        type=port,
        default=DEFAULT_PORT,
        metavar="PORT",
        help=f"port of the page; another one if that is in use ({DEFAULT_PORT})",
    )


def _node_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("node", help="a node: 3 or r3")
    parser.add_argument("--run", metavar="TAG", help="tag of the run, where several are live")
    parser.add_argument("--app", help="name of this application (its command and process id)")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command; returns its exit status."""
    try:
        open_closed_streams()
        end_like_ctrl_c()
        arguments = build_parser().parse_args(argv)
        with run_folder_errors():
            return int(import_module(arguments.module).main(arguments))
    except TestbedError as error:
        print(f"cbcb: {error}", file=sys.stderr)
        return error.status
    except KeyboardInterrupt:
        print("cbcb: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output has gone; nothing is left to say
        return 0
    except OSError as error:
        if error.errno in _PATH_ERRORS and error.filename is not None:
            print(f"cbcb: {error.filename}: {error.strerror}", file=sys.stderr)
            return InputError.status
        if error.errno not in FULL:
            raise
        try:
            sys.stdout.flush()
        except OSError:  # or the interpreter would try once more when it ends
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print(f"cbcb: {error.filename or 'output'}: {error.strerror}", file=sys.stderr)
        return 3
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] in {"testbed", "router", "topos", "captures"}:
            raise
        print(
            f"cbcb: {sys.executable} has no module {error.name}: wrong interpreter? "
            "`./run.sh` makes the right one (.venv/bin/cbcb)",
            file=sys.stderr,
        )
        return 3


if __name__ == "__main__":
    sys.exit(main())
