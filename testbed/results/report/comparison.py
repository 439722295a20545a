"""Several runs beside each other: settings that differ, keys of the summaries, and curves over each other."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.lines import Line2D
from matplotlib.ticker import PercentFormatter

from captures.accounting.direct import flat
from captures.accounting.texts import STEP_S, WINDOW_S
from captures.rundir import RunLayout
from captures.rundir.inputs import MANIFEST
from captures.rundir.summary import read_summary
from captures.tables import store
from testbed.experiments.config.schema import dotted
from testbed.machine.versions import require_one_code
from testbed.results.report.figures import TIME_LABEL, broken
from testbed.results.report.style import CURVE_COLOURS, empty_figure, styled
from testbed.support.errors import InputError

#: Table, column, label, whether the values are shares, and the experiment seconds without a point that break
#: the line.
_CURVES = (
    ("false_negative_curve", "fraction", "false negatives", True, WINDOW_S),
    ("false_positive_curve", "fraction", "false positives,\nall messages at routers", True, WINDOW_S),
    ("control_share_curve", "ra_fraction", "RA frames / all frames", True, 1.5 * STEP_S),
    ("control_rate_curve", "sr_ur_per_s", "SR and UR frames a second", False, math.inf),
)


@dataclass(frozen=True)
class Row:
    """A key with its value in each run (None: the run has none)."""

    key: str
    values: tuple[Any, ...]

    @property
    def differs(self) -> bool:
        return any(value != self.values[0] for value in self.values[1:])


def names_of(runs: Sequence[Path]) -> list[str]:
    """Returns a name for each run: that of its folder, or its path where two folders have one name."""
    names = [run.resolve().name for run in runs]
    return [str(run) if names.count(name) > 1 else name for run, name in zip(runs, names, strict=True)]


def compare(runs: Sequence[Path], *, other_code: str = "refuse") -> list[Row]:
    """Returns every key of the summaries, in the order of the first run that has it.

    Args:
        other_code: "keep": runs of different code may be compared.

    Raises:
        RunFolderError: a run has no summary.
        InputError: different code made the runs.
    """
    require_one_code((MANIFEST.read(RunLayout(run)).get("testbed") for run in runs), other_code)
    found = [flat(read_summary(RunLayout(run))) for run in runs]
    keys = dict.fromkeys(key for summary in found for key in summary)
    return [Row(key, tuple(summary.get(key) for summary in found)) for key in keys]


def differing_settings(runs: Sequence[Path]) -> list[Row]:
    """Returns the keys of the experiments that differ, in the order of the experiment file."""
    found = [_settings(RunLayout(run)) for run in runs]
    keys = dict.fromkeys(key for settings in found for key in settings)
    rows = [Row(key, tuple(settings.get(key) for settings in found)) for key in keys]
    return [_short(row) for row in rows if row.differs]


def _short(row: Row) -> Row:
    """A row in which a list, such as that of links, is the number of its parts that the first run has not."""
    first = row.values[0]
    if not isinstance(first, list):
        return row
    numbers = [sum(each not in first for each in own or ()) for own in row.values]
    texts = [f"{number} of {len(own or ())} differ" for own, number in zip(row.values, numbers, strict=True)]
    return Row(row.key, (f"{len(first)}", *texts[1:]))


def _settings(run: RunLayout) -> dict[str, Any]:
    if not run.experiment.is_file():
        return {}
    document = tomllib.loads(run.experiment.read_text(encoding="utf-8"))
    topology = json.loads((run.path / document.pop("topology")["file"]).read_text(encoding="utf-8"))
    return {**dotted(document), **{f"topology.{key}": value for key, value in topology.items()}}


def draw_curves(runs: Mapping[str, Path], path: Path) -> bool:
    """Draws the curves of figures 11 to 14 of several runs over each other; SVG, PNG or PDF by the suffix.

    Returns:
        Whether there was a curve to draw.

    Raises:
        InputError: the file cannot be written.
    """
    with styled(), mpl.rc_context({"svg.hashsalt": "compare"}):
        figure = empty_figure(10.4, 6.0)
        handles: dict[str, Line2D] = {}
        for place, (table, column, label, share, gap_s) in enumerate(_CURVES, 1):
            axes = figure.add_subplot(2, 2, place)
            for number, (name, run) in enumerate(runs.items()):
                points = store.read(run, table, ["t_s", column])
                if points is not None and points.num_rows:
                    lines = broken(points.sort_by("t_s").to_pandas(), gap_s)
                    xs, ys = (lines[each].to_list() for each in ("t_s", column))
                    (handles[name],) = axes.plot(xs, ys, color=CURVE_COLOURS[number % len(CURVE_COLOURS)])
            axes.set_ylabel(label)
            axes.set_xlabel(TIME_LABEL)
            axes.set_ylim(bottom=0)
            if share:
                axes.yaxis.set_major_formatter(PercentFormatter(1.0))
        if handles:
            figure.legend(handles.values(), handles, loc="outside upper left", ncols=3, fontsize="small")
            try:
                figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
            except (OSError, ValueError) as error:
                raise InputError(f"{path}: cannot be written: {error}") from error
        return bool(handles)
