"""The report of a run: one self-contained HTML file, and its figures as files."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from captures.accounting.texts import STEP_S, WINDOW_S
from captures.rundir import RunLayout
from testbed.experiments.config.schema import dotted
from testbed.results.report.data import RunData, read_run
from testbed.results.report.figures import (
    CONTROL_RATES,
    SERVICE_RATES,
    Drawing,
    bin_width,
    curve,
    delays,
    frames_over_time,
    matches,
    rates,
    recovery,
    stretch,
    utilisation,
)
from testbed.results.report.sheets import all_sheets
from testbed.results.report.style import STYLES, save, save_pdf, styled
from testbed.results.report.topology_figure import topology
from testbed.terminal import numbers
from testbed.terminal.summary import facts

SWEEP_PAGE = "sweep.html"


def write_report(run_dir: Path) -> Path:
    """Writes the report and its figures, as SVG and PNG, into a run folder.

    Returns:
        The path of the report.

    Raises:
        RunFolderError: the folder has no summary or no topology, or a file is malformed.
        testbed.support.errors.InputError: a table is malformed.
    """
    run = read_run(run_dir)
    manifest: Mapping[str, Any] = run.manifest or {}
    path, folder = RunLayout(run_dir).report, RunLayout(run_dir).figures_folder
    with styled():
        figures = {
            name: drawing and {"svg": Markup(save(drawing.figure, folder, name)), "note": drawing.note}
            for name, drawing in _drawings(run).items()
        }
    write_page(
        path,
        "page.html",
        title=manifest.get("experiment") or run.topology.name or run_dir.name,
        run_name=run_dir.resolve().name,
        sweep=_sweep_of(run_dir),
        sweep_page=SWEEP_PAGE,
        summary=run.summary,
        captured=run.links_captured,
        uncaptured="The captures of links, on which this rests, were not kept.",
        verdict=numbers.verdict(run.summary),
        figures=figures,
        facts=facts(run.summary),
        sheets=all_sheets(run),
        recovery=run.summary.get("recovery_s") or [],
        private=run.summary.get("private"),
        attention=run.summary.get("attention"),
        undecided=numbers.undecided(run.summary),
        reconciliations=numbers.reconciliations(run.summary),
        not_taken=numbers.frames_not_taken(run.summary),
        # The measured properties of links have a table.
        manifest=sorted(dotted({key: value for key, value in manifest.items() if key != "links"}).items()),
    )
    return path


def write_page(path: Path, template: str, **values: Any) -> None:
    """Writes a page from a template of this folder, into which the template takes style and script."""
    environment = Environment(
        loader=PackageLoader("testbed.results", "report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(count=numbers.count, seconds=numbers.seconds, by_type=numbers.by_type)
    path.write_text(environment.get_template(template).render(values), encoding="utf-8")


def _sweep_of(run_dir: Path) -> str | None:
    """Returns the name of the sweep in whose folder a run is; None: it is in none."""
    runs = run_dir.resolve().parent
    return runs.parent.name if runs.name == "runs" and (runs.parent / "rows").is_dir() else None


def write_figures(run_dir: Path, style: str) -> list[Path]:
    """Writes the figures of a run as PDF, in a style of `testbed.results.report.style.STYLES`; returns their
    paths.

    Raises:
        RunFolderError, testbed.support.errors.InputError: as `write_report`.
    """
    run = read_run(run_dir)
    folder = RunLayout(run_dir).figures_folder / style
    with styled(STYLES[style]):
        return [
            save_pdf(drawing.figure, folder, name)
            for name, drawing in _drawings(run).items()
            if drawing is not None
        ]


def _drawings(run: RunData) -> dict[str, Drawing | None]:
    """Returns every figure, in the style in force, by file name."""
    tables = run.tables
    links = run.topology.links
    return {
        "topology": topology(run),
        "false_negatives": curve(tables["false_negative_curve"], "deliveries missed (%)", gap_s=None),
        "false_positives": curve(tables["false_positive_curve"], "false positives (%)", WINDOW_S),
        "frames": frames_over_time(tables["type_bins"]),
        "control_share": curve(
            tables["control_share_curve"], "control frames (%)", 1.5 * STEP_S, ("ra_fraction", "RA alone")
        ),
        "rates": rates(tables["control_rate_curve"], CONTROL_RATES, "frames per experiment second"),
        "service": rates(tables["attention_curve"], SERVICE_RATES, "per experiment second"),
        "satisfied": curve(
            tables["attention_curve"].rename(columns={"satisfied_fraction": "fraction"}),
            "rounds satisfied (%)",
            math.inf,
            ("starved_fraction", "starved"),
        ),
        "utilisation": utilisation(
            tables["link_utilisation"],
            2 * len(links),
            2 * sum(bool(link.bandwidth_mbps) for link in links),
            bin_width(tables["type_bins"]),
            run.topology.label,
        ),
        "delays": delays(tables["deliveries"]),
        "stretch": stretch(tables["arrivals"]),
        "matches": matches(run.matched),
        "recovery": recovery(run.summary.get("recovery_s") or []),
    }
