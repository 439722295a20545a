"""The runs of a sweep, its tables, and their statistics."""

from __future__ import annotations

import io
import statistics
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from queue import SimpleQueue
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from matplotlib.axes import Axes
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from rich.console import Console

from captures.rundir.inputs import Source
from testbed.evaluation.sweeps import runner
from testbed.evaluation.sweeps.folder import SweepFolder, read_runs
from testbed.evaluation.sweeps.job import Measured, Row, row_of
from testbed.evaluation.sweeps.plots import draw, lines_of, save
from testbed.evaluation.sweeps.runner import remaining, run_and_keep, sweep
from testbed.evaluation.sweeps.spec import Job, Plot, load_spec
from testbed.evaluation.sweeps.statistics import point_table, points, sample, student, values_of
from testbed.experiments.config.load import find_experiment, load_experiment
from testbed.machine import checks, probes
from testbed.machine.probes import KernelFeatures
from testbed.machine.versions import source_version
from testbed.results.report.style import STYLES, new_figure, styled
from testbed.support.errors import InputError, MachineError
from testbed.terminal.progress import Progress
from tests.support.cases import cases_beside
from tests.support.polling import TIMEOUT


@pytest.fixture
def jobs(tmp_path: Path) -> list[Job]:
    path = tmp_path / "s.toml"
    path.write_text('experiment = "ring5"\nseeds = 2\n[grid]\n"routing.scheme" = ["pif", "flooding"]\n')
    return load_spec(path).jobs()


def _row(job: Job) -> Row:
    def run(job: Job) -> Measured:
        if job.number == 2:
            raise RuntimeError("no trees\nin time")
        keys = {"verdict": "holds", "sent": job.number, "share": 0 if job.number else 0.5, "delay": None}
        return keys, {"run_s": 1.0}

    return row_of(job, run)


def _drawn(table: pa.Table, plot: Plot) -> Axes:
    axes = Figure().add_subplot()
    draw(lines_of(table, plot), plot, axes)
    return axes


def test_axes_and_legend_of_a_plot_have_the_texts_that_were_given() -> None:
    table = pa.table({"x": [1, 2], "y": [1.0, 2.0], "z": [4.0, 4.0], "scheme": ["pif", "psf"]})
    named = Plot(
        *("y / z", "x", "scheme"),
        x_label="receivers (%)",
        y_label="links a message",
        by_label="protocol",
        label={"pif": "CBCB"},
        x_ticks=[1, 2],
    )
    axes, unnamed = _drawn(table, named), _drawn(table, Plot("y / z", "x"))
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("receivers (%)", "links a message")
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "2"]
    (legend,) = axes.figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["CBCB", "psf"]
    assert legend.get_title().get_text() == "protocol"
    assert (unnamed.get_xlabel(), unnamed.get_ylabel()) == ("x", "y\n/ z")
    assert not unnamed.figure.legends


@pytest.mark.parametrize("values", [(300, 900), ("waxman,25", "ring,25")])
def test_lines_are_beside_each_other_at_categories_alone(values: tuple[object, object]) -> None:
    names = ("a", "b")
    table = pa.table(
        {
            "x": [each for each in values for _ in range(4)],
            "line": [name for _ in values for name in names for _ in range(2)],
            "y": [1.0, 2.0] * 4,
        }
    )
    axes = _drawn(table, Plot("y", "x", "line"))
    lines = [each.lines[0] for each in axes.containers if isinstance(each, ErrorbarContainer)]
    first, second = (np.array(line.get_xdata()) for line in lines)
    assert np.all(first == second) if values == (300, 900) else np.all(first < second)
    assert lines[0].get_marker() != lines[1].get_marker()


def test_no_interval_is_cut_and_a_logarithmic_axis_needs_values_above_0() -> None:
    table = pa.table({"x": [1, 1, 100, 100], "y": [1.0, 9.0, 500.0, 504.0]})
    axes = _drawn(table, Plot("y", "x", x_scale="log"))
    interval = sample([1.0, 9.0])
    assert interval.low is not None
    assert axes.get_ylim()[0] <= interval.low < 0
    assert axes.get_xscale() == "log"
    with pytest.raises(InputError, match="needs values, and ends of intervals, above 0"):
        _drawn(table, Plot("y", "x", y_scale="log"))
    assert _drawn(table, Plot("y", "x", y_scale="log", kind="median")).get_yscale() == "log"


def test_a_failed_run_is_a_row_with_its_error(jobs: list[Job]) -> None:
    row = _row(jobs[2])
    assert (row["error"], row["keys"]) == ("RuntimeError: no trees", {})
    assert "in time" in row["trace"]


def test_the_table_has_a_row_for_each_run_that_ended(tmp_path: Path, jobs: list[Job]) -> None:
    folder = SweepFolder(tmp_path / "folder")
    for job in jobs[::-1]:
        folder.keep(_row(job))
    rows = folder.rows(jobs)
    assert rows.keys() == {job.identity for job in jobs}
    table = folder.write_tables(jobs, rows)
    assert table.to_pydict() == {
        "run": [0, 1, 2, 3],
        "routing.scheme": ["pif", "pif", "flooding", "flooding"],
        "seed": [1, 2, 1, 2],
        "error": [None, None, "RuntimeError: no trees", None],
        **{key: [source_version()[key]] * 4 for key in ("commit", "dirty", "code")},
        "verdict": ["holds", "holds", None, "holds"],
        "sent": [0, 1, None, 3],
        "share": [0.5, 0.0, None, 0.0],
        "delay": [None, None, None, None],
    }
    assert read_runs(tmp_path / "folder") == table
    costs = pq.read_table(tmp_path / "folder" / "costs.parquet")
    assert costs["run_s"].to_pylist() == [1.0, 1.0, None, 1.0]


def test_a_sweep_whose_runs_have_all_failed_says_why_and_draws_nothing(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text(
        'experiment = "ring5"\n[grid]\nduration_s = [60]\n[[plot]]\ny = "sent"\nx = "duration_s"\n'
    )
    spec = load_spec(path)
    (job,) = spec.jobs()

    def fails(_job: Job) -> Measured:
        raise RuntimeError("no trees")

    SweepFolder(tmp_path / "folder").keep(row_of(job, fails))
    swept = sweep(spec, tmp_path / "folder", Progress(Console(quiet=True)))
    assert swept.plots == {}
    assert swept.complaints == ["run 0 failed (duration_s = 60, seed = 1): RuntimeError: no trees"]


def test_a_plot_that_cannot_be_drawn_is_a_complaint_and_the_others_are_drawn(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    plots = "".join(f'[[plot]]\ny = "{y}"\nx = "duration_s"\n' for y in ("verdict", "sent"))
    path.write_text(f'experiment = "ring5"\n[grid]\nduration_s = [60]\n{plots}')
    spec = load_spec(path)
    SweepFolder(tmp_path / "folder").keep(_row(spec.jobs()[0]))
    swept = sweep(spec, tmp_path / "folder", Progress(Console(quiet=True)))
    assert swept.plots.keys() == {"sent against duration_s"}
    assert swept.complaints == ["plot 1: verdict: its values are of type string; expected numbers"]


def _by_other_code(row: Row) -> Row:
    return {**row, "source": Source(version="1", commit="a" * 40, dirty=True, code="b")}


def test_runs_that_other_code_has_made_are_refused_kept_or_repeated(tmp_path: Path, jobs: list[Job]) -> None:
    folder = SweepFolder(tmp_path)
    for job in jobs:
        folder.keep(_row(job) if job.number == 1 else _by_other_code(_row(job)))
    with pytest.raises(
        InputError,
        match=r": 3 of 4 runs were made by other code \(aaaaaaaa with changes \(code b\)\); --other",
    ):
        folder.ended(jobs, "refuse")
    assert folder.ended(jobs, "repeat").keys() == {jobs[1].identity}
    kept = folder.ended(jobs, "keep")
    assert kept.keys() == {job.identity for job in jobs}
    # A failure is no reason to refuse a run that is repeated anyway.
    assert folder.ended(jobs[1:3:1], "keep", retry=True).keys() == {jobs[1].identity}


def test_a_plot_of_runs_of_different_code_needs_a_word(
    tmp_path: Path, jobs: list[Job], printed: Callable[..., str], refused: Callable[..., str]
) -> None:
    folder = SweepFolder(tmp_path)
    rows = {job.identity: _row(job) for job in jobs}
    rows[jobs[0].identity] = _by_other_code(rows[jobs[0].identity])
    folder.write_tables(jobs, rows)
    plot = ["plot", tmp_path, "--y", "sent", "--x", "routing.scheme", "-o", tmp_path / "a.svg"]
    assert refused(*plot).startswith("cbcb: different code made the runs (")
    assert not (tmp_path / "a.svg").exists()
    printed(*plot, "--other-code", "keep")


def test_equal_rows_make_equal_bytes_in_whatever_order_they_end(tmp_path: Path, jobs: list[Job]) -> None:
    written = []
    for name, order in (("a", jobs), ("b", jobs[::-1])):
        folder = SweepFolder(tmp_path / name)
        for job in order:
            folder.keep(_row(job))
        folder.write_tables(jobs, folder.rows(jobs))
        written.append((tmp_path / name / "runs.parquet").read_bytes())
    assert written[0] == written[1]


def test_the_confidence_interval_of_a_mean() -> None:
    """Of 2, 4, 6, 8: mean 5, standard deviation 2.582, t(3) = 3.182: 5 +- 4.108."""
    found = sample([2, 4, 6, 8])
    assert (found.runs, found.mean, found.median) == (4, 5, 5)
    assert [found.low, found.high, found.p10, found.p90] == pytest.approx([0.892, 9.108, 2.6, 7.4], abs=1e-3)
    assert (sample([3]).low, sample([3]).high) == (None, None)
    assert (sample([1, 3]).p10, sample([1, 3]).p90) == (1, 3)
    assert str(sample([3])) == "3, 1 run, no interval"
    # Student's quantiles go over into those of the normal distribution.
    assert student(31) == pytest.approx(2.0395, abs=1e-4)
    assert student(60) == pytest.approx(2.0003, abs=1e-4)
    assert student(10**6) == pytest.approx(statistics.NormalDist().inv_cdf(0.975), abs=1e-5)


_RUNS = pa.table(
    {
        "net": ["a", "a", "b", "b"],
        "error": [None, None, None, "died"],
        "made": [1, 3, 4, 8],
        "sent": [2, 4, 0, 8],
        "verdict": ["holds"] * 4,
        "by.RA": [1, 2, 3, 4],
        "by.SR": [0, 0, 1, 1],
    }
)


def test_without_parameters_all_runs_are_of_one_point() -> None:
    runs = pa.table({"loss": [1.0, 3.0, 9.0], "error": [None, None, "late"]})
    assert points(runs, "loss", []) == {(): sample([1.0, 3.0])}
    (row,) = point_table(runs, []).to_pylist()
    assert (row["key"], row["runs"], row["mean"]) == ("loss", 2, 2.0)


def test_a_quotient_of_keys_leaves_out_what_has_no_value() -> None:
    assert values_of(_RUNS, "made / sent") == [0.5, 0.75, None, 1.0]
    assert values_of(_RUNS, "1 - (by.RA + 2 * by.SR) / -4") == [1.25, 1.5, 2.25, 2.5]
    # Run 2 divides by 0, and run 3 failed.
    assert {place: found.mean for place, found in points(_RUNS, "made/sent", ["net"]).items()} == {
        ("a",): 0.625
    }


@pytest.mark.parametrize(
    ("key", "message"),
    [
        *cases_beside(__file__)["no_keys"],
        ("made + 1" + "0" * 400, "expected keys, numbers"),
        ("-" * 1500 + "made", "expected keys|is no expression"),
        ("made" + " + 1" * 300, "expected keys, numbers"),
    ],
)
def test_keys_that_cannot_be_plotted(key: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        points(_RUNS, key, ["net"])


_PAIRS = pa.table(
    {
        "run": range(8),
        "scheme": ["pif", "flooding"] * 4,
        "nodes": [10, 10, 10, 10, 20, 20, 20, 20],
        "seed": [1, 1, 2, 2, 1, 1, 2, 2],
        "error": [None] * 6 + ["died", None],
        "links": [2.0, 4.0, 3.0, 12.0, 5.0, 10.0, 7.0, 8.0],
    }
)


def test_runs_are_paired_by_seed_and_parameters() -> None:
    """Ratios of 2 / 4 and 3 / 12, not 5 / 16; a run whose pair failed is left out."""
    ratio = points(_PAIRS, "links", ["nodes"], ("scheme", "flooding", "ratio"))
    assert ratio == {(10,): sample([0.5, 0.25]), (20,): sample([0.5])}
    less = points(_PAIRS, "links", ["nodes"], ("scheme", "pif", "difference"))
    assert less == {(10,): sample([2.0, 9.0]), (20,): sample([5.0])}
    # Seed 1 has 0.5 with either number of nodes: they are not independent.
    pooled = points(_PAIRS, "links", [], ("scheme", "flooding", "ratio"))
    assert pooled == {(): sample([0.5, 0.25])}
    with pytest.raises(InputError, match="unknown value 'psf'"):
        points(_PAIRS, "links", ["nodes"], ("scheme", "psf", "ratio"))
    twice = pa.concat_tables([_PAIRS, _PAIRS])
    with pytest.raises(InputError, match="several runs with flooding have one seed"):
        points(twice, "links", ["nodes"], ("scheme", "flooding", "ratio"))
    with pytest.raises(InputError, match=r"unknown parameter 'selectivity'; expected one of: scheme, nodes$"):
        points(_PAIRS, "links", ["selectivity"])


def test_the_numbers_of_a_plot_are_beside_it(
    tmp_path: Path, printed: Callable[..., str], refused: Callable[..., str]
) -> None:
    pq.write_table(_PAIRS, tmp_path / "runs.parquet")
    out = tmp_path / "a.pdf"
    plot = ["plot", tmp_path, "--y", "links", "--x", "nodes"]
    against = ["--against", "scheme=flooding", "--label", "pif=CBCB", "--by", "scheme"]
    assert "nodes = 20, scheme = pif: 0.5, 1 run, no interval" in printed(*plot, "-o", out, *against)
    rows = (tmp_path / "a.csv").read_text().splitlines()
    assert rows[0].startswith('"drawn","nodes","scheme","runs","mean"')
    assert rows[2] == '"(links) / with scheme=flooding",20,"pif",1,0.5,,,0.5,0.5,0.5'
    assert out.stat().st_size > 1000
    assert "expected PARAMETER=VALUE" in refused(*plot, "--against", "scheme")
    assert "did you mean 'pif'" in refused(*plot, "--by", "scheme", "--label", "pfi=a")
    assert "--x-ticks nan" in refused(*plot, "--by", "scheme", "--x-ticks", "nan")


def test_a_legend_is_as_wide_as_its_axes_at_most() -> None:
    table = pa.table(
        {"x": [1] * 6, "y": [1.0] * 6, "by": [f"scheme of thirty letters no. {n}" for n in range(6)]}
    )
    with styled(STYLES["paper"]):
        figure, axes = new_figure(6.2, 3.6)
        plot = Plot("y", "x", "by")
        draw(lines_of(table, plot), plot, axes)
        figure.draw_without_rendering()
    (legend,) = figure.legends
    box = legend.get_window_extent()
    assert 0 <= box.x0 < box.x1 <= figure.bbox.width


def test_equal_tables_make_equal_plots(tmp_path: Path) -> None:
    written = []
    for _ in range(2):
        save(_RUNS, Plot("made", "net"), tmp_path / "a.svg")
        written.append((tmp_path / "a.svg").read_text())
    assert "made" in written[0]
    assert written[0] == written[1]
    with pytest.raises(InputError, match=r"expected a name that ends in \.svg"):
        save(_RUNS, Plot("made", "net"), tmp_path / "a.txt")


def test_the_time_left_follows_from_the_runs_that_have_ended() -> None:
    assert remaining(10, 1, 0, 10.0) == "1 of 10, 90 s left"
    assert remaining(10, 2, 1, 100.0) == "2 of 10, 1 failed, 7 min left"
    assert remaining(10, 10, 0, 130.0) == "10 of 10"


def test_a_sweep_prints_its_progress_while_no_simulation_ends(
    jobs: list[Job], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a terminal; the simulation, on a context in place of Spark's, ends after the second line."""
    lines: SimpleQueue[str] = SimpleQueue()

    class Context:
        defaultParallelism = 1  # noqa: N815 - the name of Spark

        def parallelize(self, _jobs: list[Job], _slices: int) -> Context:
            return self

        def map(self, _run: object) -> Context:
            return self

        def collect(self) -> list[Row]:
            for _ in range(2):
                assert lines.get(timeout=TIMEOUT) == "… 1 runs: 0 of 1"
            return [_row(jobs[0])]

    monkeypatch.setattr(
        runner, "spark_session", lambda *_, **__: nullcontext(SimpleNamespace(sparkContext=Context()))
    )
    monkeypatch.setattr(runner, "_SHOWN_S", 0.01)
    monkeypatch.setattr("testbed.terminal.progress._SIGN_OF_LIFE_S", 0.0)
    progress = Progress(Console(file=io.StringIO()))
    monkeypatch.setattr(progress, "note", lines.put)
    place = SweepFolder(tmp_path / "swept")
    rows = run_and_keep(jobs[:1], place, "sweep_s", master="local[1]", progress=progress)
    assert [row["error"] for row in rows.values()] == [None]


def test_link_properties_that_the_kernel_lacks_end_a_sweep_before_its_first_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "check_machine", list)
    monkeypatch.setattr(probes, "kernel_features", lambda: KernelFeatures(False, False, False))
    experiments = [
        load_experiment(find_experiment("ring5"), overrides)
        for overrides in ({}, {"links.delay_ms": "2"}, {"links.delay_ms": "3"})
    ]
    jobs = [
        Job(number, str(number), {}, 1, "run", experiment) for number, experiment in enumerate(experiments)
    ]
    place, progress = SweepFolder(tmp_path), Progress(Console(file=io.StringIO()))
    with pytest.raises(MachineError, match=r"link \d+-\d+ asks for delay_ms = 2, .*and 11 more"):
        run_and_keep(jobs, place, "sweep_s", master="local[1]", progress=progress)
    assert [each.name for each in tmp_path.rglob("*")] == ["rows"]
