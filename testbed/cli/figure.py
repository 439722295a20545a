"""`cbcb figure`: reproduces a figure of the papers, and holds it against what the paper says."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from testbed.cli.arguments import add_master, add_other_code, add_runs, positive
from testbed.errors import InputError, MachineError
from testbed.figures.reproduction import FIGURES, PAPER, SIZES
from testbed.sweeps.engines import ENGINES, OTHER_CODE


def add_arguments(parser: ArgumentParser) -> None:
    names = "; ".join(f"{name}: {doc}" for name, doc in FIGURES.docs.items())
    parser.add_argument("figure", metavar="NAME", help=names.replace("%", "%%"))
    parser.add_argument(
        "--size",
        choices=SIZES,
        default=PAPER,
        help="networks and durations (paper); of some figures: large, beyond the paper's, and emulated, a "
        "part that --engine run, which this size requires, can do in an hour",
    )
    parser.add_argument("--seeds", type=positive, default=5, metavar="N", help="seeds 1 to N (5)")
    parser.add_argument(
        "--engine",
        choices=ENGINES,
        default="simulate",
        help="simulated as tasks of Spark, or emulated one after the other (simulate); figures that are "
        "calculated, such as attention, take simulate alone",
    )
    add_runs(parser)
    add_master(parser, "local[2]")
    add_other_code(parser, *OTHER_CODE)
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="DIR",
        help="folder for the page (figures/NAME beside the runs). The page is NAME.md; of a size "
        "other than paper, or with --engine run, the name has the size and the word emulated as well, such "
        "as NAME-small or NAME-paper-emulated",
    )


def main(arguments: Namespace) -> int:
    """Returns 0 if every statement that is judged holds, else 1."""
    from rich.console import Console

    from captures.spark.session import SessionError
    from testbed.figures.page import page_of, verdict_of
    from testbed.figures.runner import reproduce
    from testbed.runs.folders import reproduction_folder
    from testbed.terminal.progress import Progress

    name, size, seeds = arguments.figure, arguments.size, arguments.seeds
    try:
        figure = FIGURES[name]()
    except KeyError as error:
        raise InputError(str(error)) from error
    folder = reproduction_folder(arguments.runs, name)
    progress = Progress(Console())
    try:
        done = reproduce(
            figure,
            size,
            range(1, seeds + 1),
            folder,
            progress,
            engine=arguments.engine,
            master=arguments.master,
            other_code=arguments.other_code,
        )
    except SessionError as error:
        raise MachineError(str(error)) from error
    page = page_of(
        name,
        figure,
        done,
        arguments.output or folder,
        size=size,
        seeds=seeds,
        engine=arguments.engine,
    )
    statements = figure.judge(done.results)
    for statement in statements:
        progress.note(
            f"{verdict_of(statement):7} {statement.text}: {statement.measured} ({statement.predicted})"
        )
    for line in done.failures:
        progress.note(f"failed  {line}")
    progress.note(f"page: {page}")
    return 1 if done.failures or any(statement.holds is False for statement in statements) else 0
