"""`cbcb compare`: the keys of several runs side by side, and their curves over each other."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from testbed.cli.arguments import add_other_code, add_runs, add_style
from testbed.runs.folders import find_run
from testbed.sweeps.engines import KEEP, REFUSE


def add_arguments(parser: ArgumentParser) -> None:
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


def main(arguments: Namespace) -> int:
    """Prints the keys, and draws the curves."""
    # matplotlib takes a second to load.
    from rich.console import Console
    from rich.table import Table

    from testbed.report.comparison import compare, draw_curves, names_of
    from testbed.report.style import STYLES, styled
    from testbed.terminal import numbers
    from testbed.terminal.printable import foreign

    runs = [find_run(arguments.runs, run) for run in arguments.compared]
    names = names_of(runs)
    rows = compare(runs, other_code=arguments.other_code)
    shown = [row for row in rows if arguments.all or row.differs]
    table = Table(box=None, padding=(0, 2, 0, 0))
    # Keys and names that are cut off would be the same for several: names are broken, keys stay whole.
    table.add_column("key", no_wrap=True, min_width=max((len(row.key) for row in shown), default=0))
    for name in names:
        table.add_column(foreign(name), overflow="fold")
    for row in shown:
        table.add_row(foreign(row.key), *(foreign(_text(value, numbers.ABSENT)) for value in row.values))
    console = Console()
    console.print(table)
    console.print(foreign(f"{len(rows) - len(shown)} keys with equal values are not shown", "dim"))
    with styled(STYLES[arguments.style]):
        drawn = draw_curves(dict(zip(names, runs, strict=True)), arguments.output)
    if drawn:
        console.print(foreign(f"curves: {arguments.output}"), soft_wrap=True)
    return 0


def _text(value: object, absent: str) -> str:
    if value is None:
        return absent
    return f"{value:.6g}" if isinstance(value, float) else str(value)
