"""`cbcb sweep`: an experiment over a grid of parameters and seeds, into one table."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from testbed.cli.arguments import add_master, add_other_code, add_runs
from testbed.errors import InputError, MachineError
from testbed.sweeps.engines import OTHER_CODE


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("spec", type=Path, metavar="SPEC", help="the file of the sweep (docs/sweeps.md)")
    add_runs(parser)
    add_master(parser, "local[2]")
    parser.add_argument(
        "--keep-runs",
        action="store_true",
        help="keep the run folders of simulations in the folder of the sweep",
    )
    parser.add_argument("--retry-failed", action="store_true", help="run what has failed a second time")
    add_other_code(parser, *OTHER_CODE)


def main(arguments: Namespace) -> int:
    """Returns 0 if every run succeeded and its verdict holds, else 1."""
    from rich.console import Console

    from captures.spark.session import SessionError
    from testbed.runs.folders import sweep_folder
    from testbed.sweeps.spec import load_spec
    from testbed.sweeps.sweep import sweep
    from testbed.terminal.progress import Progress

    spec = load_spec(arguments.spec)
    datapath = "user"
    if spec.engine == "run":
        from testbed.machine.probes import datapath as found

        datapath = found()
    progress = Progress(Console())
    try:
        result = sweep(
            spec,
            sweep_folder(arguments.runs, spec.name),
            progress,
            master=arguments.master,
            datapath=datapath,
            keep=arguments.keep_runs,
            retry=arguments.retry_failed,
            other_code=arguments.other_code,
        )
    except SessionError as error:
        raise MachineError(str(error)) from error
    for name, path in result.plots.items():
        progress.note(f"plot: {path} ({name})")
    progress.note(f"table: {result.table}")
    for line in result.complaints:
        progress.note(line)
    if result.unfinished:
        raise InputError(f"{result.unfinished} runs are missing")
    return 1 if result.complaints else 0
