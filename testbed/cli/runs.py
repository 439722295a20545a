"""Run folders: accounting, report, live view, comparison and archives."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from captures.rundir import RunLayout
from testbed.cli.arguments import (
    add_engine,
    add_master,
    add_other_code,
    add_page,
    add_run,
    add_runs,
    add_style,
)
from testbed.evaluation.sweeps import KEEP, REFUSE
from testbed.results.archive import SUFFIX, export_run, import_run
from testbed.results.folders import SWEEP_TABLE, find_run, sweep_folder
from testbed.support.errors import InputError
from testbed.terminal import foreign, numbers, put
from testbed.terminal.progress import Progress


def account_arguments(parser: ArgumentParser) -> None:
    add_run(parser)
    add_master(parser, "local[2]")
    add_engine(parser)


def account_command(arguments: Namespace) -> int:
    """Accounts, writes the report, prints the summary.

    Returns 0 if the verdict holds, else 1.
    """
    run_dir = find_run(arguments.runs, arguments.run)
    # Spark, pandas and matplotlib take seconds to load.
    from testbed.results.conclude import conclude

    return conclude(run_dir, arguments.master, Progress(Console()), arguments.engine)


def report_arguments(parser: ArgumentParser) -> None:
    add_run(parser)
    add_style(parser, None, "write the figures as PDF in this style, in place of the page")


def report_command(arguments: Namespace) -> None:
    # pandas and matplotlib take a second to load.
    from captures.tables import store
    from testbed.results.report.render import write_figures, write_report

    run_dir = find_run(arguments.runs, arguments.run)
    summary = RunLayout(run_dir).summary
    if not summary.is_file():
        raise InputError(f"{run_dir}: has no {summary.name}; {store.remedy(run_dir)}")
    if (wrong := store.lacking(run_dir, ())) is not None:
        raise InputError(wrong)
    if arguments.style is None:
        put(write_report(run_dir))
    else:
        put("\n".join(map(str, write_figures(run_dir, arguments.style))))


def live_arguments(parser: ArgumentParser) -> None:
    add_run(parser)
    add_page(parser, "--port")
    parser.add_argument("--until-end", action="store_true", help="end with the run, not only with Ctrl-C")


def live_command(arguments: Namespace) -> None:
    """Ends with the run, with --until-end; otherwise only Ctrl-C ends it."""
    run_dir = find_run(arguments.runs, arguments.run)
    from testbed.results.live.view import display

    display(run_dir, arguments.port, arguments.until_end, arguments.control)


def compare_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("compared", nargs="+", metavar="RUN", help="run folders, or their names")
    add_runs(parser)
    parser.add_argument("--all", action="store_true", help="show the keys with equal values too")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path("compare.svg"),
        metavar="FILE",
        help="the curves: .svg, .png or .pdf (compare.svg)",
    )
    add_style(parser, "report", "style of the curves")
    add_other_code(parser, REFUSE, KEEP)


def compare_command(arguments: Namespace) -> None:
    # matplotlib takes a second to load.
    from testbed.results.report.comparison import compare, differing_settings, draw_curves, names_of
    from testbed.results.report.style import STYLES, styled

    runs = [find_run(arguments.runs, run) for run in arguments.compared]
    names = names_of(runs)
    rows = compare(runs, other_code=arguments.other_code)
    shown = [row for row in rows if arguments.all or row.differs]
    settings = differing_settings(runs)
    table = Table(box=None, padding=(0, 2, 0, 0))
    # Keys and names that are cut off would be the same for several: names are broken, keys stay whole.
    longest = max((len(row.key) for row in (*settings, *shown)), default=0)
    table.add_column("key", no_wrap=True, min_width=longest)
    for name in names:
        table.add_column(foreign(name), overflow="fold")
    for number, row in enumerate((*settings, *shown), 1):
        table.add_row(foreign(row.key), *(foreign(_text(value)) for value in row.values))
        if number == len(settings):
            table.add_row()
    console = Console()
    console.print(table)
    console.print(foreign(f"{len(rows) - len(shown)} keys with equal values are not shown", "dim"))
    with styled(STYLES[arguments.style]):
        drawn = draw_curves(dict(zip(names, runs, strict=True)), arguments.output)
    if drawn:
        console.print(foreign(f"curves: {arguments.output}"), soft_wrap=True)


def _text(value: object) -> str:
    if value is None:
        return numbers.ABSENT
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def export_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "run",
        nargs="?",
        help="the folder of a run or a sweep, or its name (the newest run, which is then named)",
    )
    add_runs(parser)
    parser.add_argument(
        "--output", "-o", type=Path, metavar="FILE", help=f"the archive (RUN{SUFFIX} in this folder)"
    )


def export_command(arguments: Namespace) -> None:
    run = arguments.run
    named = [] if run is None else [Path(run), sweep_folder(arguments.runs, run)]
    sweeps = [each for each in named if (each / SWEEP_TABLE).is_file()]
    run_dir = (sweeps[0] if sweeps else find_run(arguments.runs, arguments.run)).resolve()
    archive = arguments.output or Path(run_dir.name + SUFFIX)
    with Console(stderr=True).status("") as status:
        export_run(run_dir, archive, lambda name: status.update(foreign(name)))
    put(archive)


def import_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("archive", type=Path, help="a file that cbcb export has written")
    add_runs(parser)


def import_command(arguments: Namespace) -> None:
    with Console(stderr=True).status("") as status:
        run_dir, equal = import_run(
            arguments.archive, arguments.runs, lambda name: status.update(foreign(name))
        )
    if not equal:
        put(
            "cbcb: other versions of packages made this run; the archive has their lock file", file=sys.stderr
        )
    put(run_dir)
