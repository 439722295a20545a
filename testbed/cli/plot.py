"""`cbcb plot`: any key of a sweep against any parameter, with intervals."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from testbed.cli.arguments import add_other_code, add_runs, add_style
from testbed.sweeps.engines import KEEP, REFUSE
from testbed.terminal.printable import put


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("sweep", type=Path, help="the folder of a sweep, its name, or a Parquet file")
    add_runs(parser)
    parser.add_argument("--y", required=True, metavar="KEY", help="a key of the summary, or KEY / KEY")
    parser.add_argument("--x", required=True, metavar="PARAMETER", help="a parameter, or any other column")
    parser.add_argument("--by", metavar="PARAMETER", help="a line for each value of this one")
    parser.add_argument("--x-label", metavar="TEXT", help="text of the horizontal axis (the parameter)")
    parser.add_argument("--y-label", metavar="TEXT", help="text of the vertical axis (the key)")
    parser.add_argument(
        "--kind",
        choices=("mean", "median"),
        default="mean",
        help="mean with its 95%% confidence interval, or median with the band from 10 to 90%% (mean)",
    )
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("plot.svg"), metavar="FILE", help=".svg, .png or .pdf"
    )
    add_style(parser, "report", "style of the plot")
    add_other_code(parser, REFUSE, KEEP)


def main(arguments: Namespace) -> int:
    """Writes the plot, and prints its numbers."""
    from testbed.machine.versions import require_one_code
    from testbed.report.style import STYLES, styled
    from testbed.runs.folders import sweep_folder
    from testbed.sweeps.folder import read_runs, sources_of
    from testbed.sweeps.plot import save
    from testbed.sweeps.spec import Plot
    from testbed.sweeps.statistics import points

    path = arguments.sweep
    if not path.exists():
        path = sweep_folder(arguments.runs, str(path))
    runs = read_runs(path)
    require_one_code(sources_of(runs), arguments.other_code)
    plot = Plot(arguments.y, arguments.x, arguments.by, arguments.kind, arguments.x_label, arguments.y_label)
    with styled(STYLES[arguments.style]):
        save(runs, plot, arguments.output)
    parameters = [plot.x] if plot.by is None else [plot.x, plot.by]
    for place, found in points(runs, plot.y, parameters).items():
        where = ", ".join(f"{name} = {value}" for name, value in zip(parameters, place, strict=True))
        put(
            f"{where}: mean {found.mean:.4g} [{found.low:.4g}, {found.high:.4g}], "
            f"median {found.median:.4g} [{found.p10:.4g}, {found.p90:.4g}], {found.runs} runs"
        )
    put(f"plot: {arguments.output}")
    return 0
