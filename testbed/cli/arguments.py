"""Types of arguments, the arguments that several commands have, and the experiment that they name.

The types say in words what they expected: argparse itself would name the function.
"""

from __future__ import annotations

import math
import re
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from testbed.results.folders import DEFAULT_RUNS
from testbed.support.errors import InputError
from testbed.terminal import put

if TYPE_CHECKING:
    from router.options import Option
    from testbed.experiments.config import Experiment

_N = TypeVar("_N", int, float)
#: Port of the page of a live run.
DEFAULT_PORT = 8642
#: Styles of figures, which matplotlib need not be loaded to list.
STYLE_NAMES = ("report", "paper")
#: Seconds that `cbcb sub` may wait, and the farthest moment that `cbcb replay --at` takes.
TIMEOUT_MAX_S = 1_000_000
MOMENT_MAX_S = 1_000_000_000

_PLACE = r"[^\s,/]+:[0-9]+"
#: The master URLs that Spark accepts (`SparkContext.createTaskScheduler`).
_MASTER = re.compile(
    r"local(\[([1-9][0-9]*|\*)(\s*,\s*[0-9]+)?\])?"
    r"|local-cluster\[\s*[0-9]+\s*,\s*[0-9]+\s*,\s*[0-9]+\s*\]"
    rf"|spark://{_PLACE}(,{_PLACE})*"
    r"|yarn|k8s://\S+"
)


def _number(kind: Callable[[str], _N], least: float, most: float, expected: str, text: str) -> _N:
    try:
        number = kind(text)
    except ValueError:
        number = None
    if number is None or not least <= number <= most:  # nor is NaN
        raise ArgumentTypeError(f"{text}: expected {expected}")
    return number


not_negative = partial(_number, int, 0, math.inf, "0 or a positive number")
positive = partial(_number, int, 1, math.inf, "a positive number")
#: A port of TCP; 0 lets the system choose.
port = partial(_number, int, 0, 65535, "a port, 0 to 65535")
timeout_s = partial(_number, float, 0, TIMEOUT_MAX_S, f"seconds, 0 to {TIMEOUT_MAX_S:,}")
#: A moment in experiment seconds; before 0 the network is being set up.
_MOMENTS = f"experiment seconds, {-MOMENT_MAX_S:,} to {MOMENT_MAX_S:,}"
moment_s = partial(_number, float, -MOMENT_MAX_S, MOMENT_MAX_S, _MOMENTS)


def master(text: str) -> str:
    """A master URL of a form that Spark accepts.

    Spark itself finds out whether a master answers at it.
    """
    if _MASTER.fullmatch(text) is None:
        raise ArgumentTypeError(f"{text}: expected local[N] or spark://HOST:PORT")
    return text


def add_experiment(parser: ArgumentParser) -> None:
    """EXPERIMENT, --topology and --set, which `load` reads."""
    parser.add_argument(
        "experiment",
        nargs="?",
        default="default",
        help="an experiment file, the name of a shipped one, a workload file of the authors' simulator, or a "
        "topology (.brite, .graphml, ...) for the default experiment (default)",
    )
    add_changes(parser)


def add_changes(parser: ArgumentParser) -> None:
    """--topology, --set and --seed, which `overrides` reads."""
    parser.add_argument(
        "--topology",
        metavar="T",
        help="another topology: a file, a shipped one (att), or a generator such as waxman,100",
    )
    parser.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        dest="overrides",
        help="another value for a key of the file, for example time_scale=30 or workload.senders_percent=50",
    )
    add_key(parser, "--seed", "seed")


def add_key(parser: ArgumentParser, name: str, key: str) -> None:
    """Another name of --set for one key."""
    parser.add_argument(
        name,
        metavar="VALUE",
        action="append",
        dest="overrides",
        type=lambda text: f"{key}={text}",
        help=f"as --set {key}=VALUE",
    )


def overrides(arguments: Namespace) -> dict[str, str]:
    """The values of --topology and --set, by dotted key; paths are relative to the working folder.

    Raises:
        InputError: an option does not have the form KEY=VALUE.
    """
    from testbed.experiments.config.load import paths_from
    from testbed.experiments.config.topology import parse_topology_argument

    found = parse_topology_argument(arguments.topology) if arguments.topology else {}
    for item in arguments.overrides:
        key, separator, value = item.partition("=")
        if not separator or not key.strip():
            raise InputError(f"--set {item}: expected KEY=VALUE, for example time_scale=30")
        found[key.strip()] = value.strip()
    return paths_from(Path.cwd(), found)


def load(arguments: Namespace) -> Experiment:
    """The experiment of a command line, validated.

    Raises:
        InputError: file, key or value is not right; one line for each fault.
    """
    from testbed.experiments.config.hop_limit import load_named

    experiment = load_named(arguments.experiment, overrides(arguments))
    for note in experiment.topology.notes:
        put(f"cbcb: topology {experiment.topology.name}: {note}", file=sys.stderr)
    return experiment


def add_all(parser: ArgumentParser, options: Iterable[Option]) -> None:
    """An argument for each option, with its meaning and its default."""
    for option in options:
        kind: Callable[[str], Any] = {"integer": int, "number": float}.get(option.kind, str)
        shown = f" ({option.default:{',' if kind is int else ''}})" if option.default is not None else ""
        parser.add_argument(
            f"--{option.key.replace('_', '-')}",
            type=kind,
            choices=tuple(option.choices) or None,
            default=option.default,
            required=option.required,
            metavar=None if option.choices else "TEXT" if kind is str else "N",
            help=f"{option.doc[0].lower()}{option.doc[1:].rstrip('.')}{shown}".replace("%", "%%"),
        )


def add_force(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--force",
        action="store_true",
        help="also where memory, processes, open files or disk are estimated to be too few",
    )


def add_runs(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--runs", type=Path, default=DEFAULT_RUNS, metavar="DIR", help="folder of run folders (captures/runs)"
    )


def add_run(parser: ArgumentParser) -> None:
    """RUN and --runs, which `find_run` reads."""
    parser.add_argument(
        "run", nargs="?", help="a run folder, or its name (the newest run, which is then named)"
    )
    add_runs(parser)


def add_live_run(parser: ArgumentParser) -> None:
    """--run, which `testbed.emulation.control.running.Running.find` takes."""
    parser.add_argument("--run", metavar="TAG", help="tag of the run, where several are live")


def add_node(parser: ArgumentParser) -> None:
    """NODE, which `testbed.emulation.control.running.Running.node` takes."""
    parser.add_argument("node", help="a node: 3, r3, or its name in the topology")


def add_master(parser: ArgumentParser, default: str) -> None:
    parser.add_argument("--master", type=master, default=default, help=f"Spark master URL ({default})")


def add_engine(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--engine",
        choices=("spark", "duckdb"),
        default="spark",
        help="engine that accounts; duckdb: the same tables, in this process, without tshark (spark)",
    )


def add_other_code(parser: ArgumentParser, *choices: str) -> None:
    meanings = {
        "refuse": "name them and end",
        "keep": "take their numbers",
        "repeat": "run them a second time",
    }
    parser.add_argument(
        "--other-code",
        choices=choices,
        default=choices[0],
        help="of runs that different code has made: "
        + "; ".join(f"{each}: {meanings[each]}" for each in choices)
        + f" ({choices[0]})",
    )


def add_style(parser: ArgumentParser, default: str | None, meaning: str) -> None:
    parser.add_argument(
        "--style",
        choices=STYLE_NAMES,
        default=default,
        help=f"{meaning}: as in reports, or with the column width and fonts of a paper",
    )


def add_page(parser: ArgumentParser, name: str) -> None:
    """The port of the page of a live run, and --control."""
    parser.add_argument(
        name,
        type=port,
        default=DEFAULT_PORT,
        metavar="PORT",
        help=f"port of the page; another one if that is in use ({DEFAULT_PORT})",
    )
    parser.add_argument(
        "--control",
        action="store_true",
        help="whoever has the address that is printed may open shells on nodes, pub, sub, and change links",
    )
