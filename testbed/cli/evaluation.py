"""Many runs: sweeps, plots, figures of the papers, and attacks."""

from __future__ import annotations

import json
import math
from argparse import ArgumentParser, Namespace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from testbed.cli.arguments import add_all, add_master, add_other_code, add_run, add_runs, add_style, positive
from testbed.evaluation.sweeps import ENGINES, KEEP, OTHER_CODE, REFUSE
from testbed.results.folders import find_run, reproduction_folder, sweep_folder
from testbed.support.errors import InputError
from testbed.terminal import put
from testbed.terminal.progress import Progress
from topos import unknown


def sweep_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("spec", type=Path, metavar="SPEC", help="file of the sweep (docs/how-to/sweeps.md)")
    add_runs(parser)
    add_master(parser, "local[2]")
    parser.add_argument(
        "--keep-runs",
        action="store_true",
        help="keep the run folders of simulations in the folder of the sweep",
    )
    parser.add_argument("--retry-failed", action="store_true", help="run what has failed a second time")
    add_other_code(parser, *OTHER_CODE)


def sweep_command(arguments: Namespace) -> int:
    """Returns 0 if every run succeeded, its verdict holds, and every plot is drawn, else 1."""
    from testbed.evaluation.sweeps.runner import sweep
    from testbed.evaluation.sweeps.spec import load_spec
    from testbed.results.report.render import SWEEP_PAGE

    spec = load_spec(arguments.spec)
    progress = Progress(Console())
    result = sweep(
        spec,
        sweep_folder(arguments.runs, spec.name),
        progress,
        master=arguments.master,
        keep=arguments.keep_runs,
        retry=arguments.retry_failed,
        other_code=arguments.other_code,
    )
    for name, path in result.plots.items():
        progress.note(f"plot: {path} ({name})")
    progress.note(f"table: {result.table}")
    progress.note(f"page: {result.table.with_name(SWEEP_PAGE)}")
    for line in result.complaints:
        progress.note(line)
    return 1 if result.complaints else 0


def plot_arguments(parser: ArgumentParser) -> None:
    from router.options import options_of
    from testbed.evaluation.sweeps.spec import Plot

    parser.add_argument("sweep", type=Path, help="the folder of a sweep, its name, or a Parquet file")
    add_runs(parser)
    add_all(parser, options_of(Plot))
    parser.add_argument(
        "--label",
        action="append",
        default=[],
        metavar="VALUE=TEXT",
        help="text of a value in the legend, or of a category on the horizontal axis",
    )
    parser.add_argument("--x-ticks", default="", metavar="N,N", help="numbers on the horizontal axis")
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("plot.svg"), metavar="FILE", help=".svg, .png or .pdf"
    )
    add_style(parser, "report", "style of the plot")
    add_other_code(parser, REFUSE, KEEP)


def plot_command(arguments: Namespace) -> None:
    from router.options import options_of
    from testbed.evaluation.sweeps.folder import read_runs, sources_of
    from testbed.evaluation.sweeps.plots import save
    from testbed.evaluation.sweeps.spec import Plot
    from testbed.machine.versions import require_one_code
    from testbed.results.report.style import STYLES, styled

    path = arguments.sweep
    if not path.exists():
        path = sweep_folder(arguments.runs, str(path))
    try:
        ticks = [float(each) for each in arguments.x_ticks.split(",") if each]
    except ValueError:
        ticks = [math.nan]
    if not all(map(math.isfinite, ticks)):
        raise InputError(f"--x-ticks {arguments.x_ticks}: expected numbers, such as 25,50,100")
    runs = read_runs(path)
    columns = [runs[name] for name in (arguments.x, arguments.by) if name in runs.column_names]
    known = {str(value) for column in columns for value in column.to_pylist()}
    labels = {}
    for text in arguments.label:
        value = next((each for each in sorted(known) if text.startswith(f"{each}=")), None)
        if value is None:
            raise InputError(f"--label {text}: {unknown('value', text.partition('=')[0], known)}")
        labels[value] = text[len(value) + 1 :]
    chosen = {each.key: getattr(arguments, each.key) for each in options_of(Plot)}
    plot = Plot(**chosen, label=labels, x_ticks=ticks)
    require_one_code(sources_of(runs), arguments.other_code)
    with styled(STYLES[arguments.style]):
        lines = save(runs, plot, arguments.output)
    put(plot.shown)
    for name, line in lines.items():
        for value, found in line.items():
            put(f"{plot.x} = {value}" + (f", {plot.by} = {name}" if plot.by else "") + f": {found}")
    put(f"plot: {arguments.output}, numbers: {arguments.output.with_suffix('.csv')}")


def figure_arguments(parser: ArgumentParser) -> None:
    from testbed.evaluation.figures.reproduction import FIGURES, PAPER, SIZES

    names = "; ".join(f"{name}: {doc}" for name, doc in FIGURES.docs.items())
    parser.add_argument("figure", metavar="NAME", help=names.replace("%", "%%"))
    parser.add_argument(
        "--size",
        choices=SIZES,
        help=f"networks and durations ({PAPER}); of some figures: large, beyond the paper's, and emulated, a "
        "part that --engine run can do in an hour",
    )
    parser.add_argument("--seeds", type=positive, metavar="N", help="seeds 1 to N (5)")
    parser.add_argument(
        "--engine",
        choices=ENGINES,
        help="simulated as tasks of Spark, or emulated one after the other (simulate); figures that are "
        "calculated take simulate alone, but for `attention --size emulated`",
    )
    add_runs(parser)
    add_master(parser, "local[2]")
    add_other_code(parser, *OTHER_CODE)
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="DIR",
        help="folder for the page (reproductions/NAME beside the runs): NAME.md, or such as NAME-small.md "
        "and NAME-paper-emulated.md of another size or engine",
    )
    parser.add_argument(
        "--from",
        dest="data",
        type=Path,
        metavar="DATA",
        help="judge and draw the data of a page (data/NAME.json.gz beside it), which has its size, "
        "seeds and engine, and run nothing",
    )


def figure_command(arguments: Namespace) -> int:
    """Returns 0 if every statement that is judged holds, else 1."""
    from testbed.evaluation.figures.page import page_of, verdict_of
    from testbed.evaluation.figures.reproduction import FIGURES, PAPER
    from testbed.evaluation.figures.runner import Origin, read_data, reproduce

    name = arguments.figure
    try:
        figure = FIGURES[name]()
    except KeyError as error:
        raise InputError(str(error)) from error
    folder = reproduction_folder(arguments.runs, name)
    progress = Progress(Console())
    given = arguments.size, arguments.seeds, arguments.engine
    if arguments.data is not None:
        if any(given):
            raise InputError("--from: expected without --size, --seeds and --engine, which its data have")
        origin, done = read_data(arguments.data)
        if origin.name != name:
            raise InputError(f"{arguments.data}: data of the figure {origin.name!r}, not {name!r}")
    else:
        size, seeds, engine = given
        origin = Origin(name, size or PAPER, seeds or 5, engine or "simulate")
        done = reproduce(
            figure, origin, folder, progress, master=arguments.master, other_code=arguments.other_code
        )
    page = page_of(figure, origin, done, arguments.output or folder)
    statements = list(figure.judge(done.results))
    for statement in statements:
        progress.note(
            f"{verdict_of(statement):7} {statement.text}: {statement.measured} ({statement.predicted})"
        )
    for line in done.failures:
        progress.note(f"failed  {line}")
    progress.note(f"page: {page}")
    return 1 if done.failures or any(statement.holds is False for statement in statements) else 0


def attack_arguments(parser: ArgumentParser) -> None:
    add_run(parser)
    parser.add_argument(
        "--key-file", type=Path, metavar="FILE", help="key of the run, to count what is right (RUN/keys.json)"
    )
    parser.add_argument(
        "--attack", action="append", default=[], metavar="NAME", help="only this attack: A1 to A5 (all)"
    )
    parser.add_argument("--json", action="store_true", help="an object a line")


def attack_command(arguments: Namespace) -> None:
    """Prints the share that each attack identifies, beside a guess that sees no frame."""
    from captures.rundir import RunLayout
    from testbed.evaluation.attacks.attacks import ATTACKS
    from testbed.evaluation.attacks.captured import attack_run

    for name in arguments.attack:
        if name not in ATTACKS:
            raise InputError(f"--attack {name}: expected one of {', '.join(ATTACKS)}")
    names = arguments.attack or list(ATTACKS)
    run = find_run(arguments.runs, arguments.run)
    text, outcomes = attack_run(RunLayout(run), arguments.key_file, names)
    if arguments.json:
        for name, count, outcome in outcomes:
            values = {key: getattr(outcome, key) for key in ("targets", "right", "share", "baseline")}
            put(json.dumps({"attack": name, "messages": count, **values}))
        return
    put(f"{run.name}: {text}")
    table = Table("attack", "messages seen", "identified", "share", "a guess", "of")
    for name, count, outcome in outcomes:
        table.add_row(
            name,
            f"{count:,}",
            f"{outcome.right:,} of {outcome.targets:,}",
            f"{100 * outcome.share:.2f} %",
            f"{100 * outcome.baseline:.2f} %",
            ATTACKS[name].target,
        )
    Console().print(table)
    for name in names:
        put(f"{name}: {ATTACKS[name].doc}")
