"""The report of a run: one HTML file that needs nothing else, and its figures as files."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from testbed.report import numbers
from testbed.report.data import RunData, read_run
from testbed.report.figures import Drawing, all_figures
from testbed.report.style import save, styled
from testbed.report.topology_figure import topology

#: Captures shown before the rest is folded away.
_CAPTURES_SHOWN = 8


def write_report(run_dir: Path) -> Path:
    """Writes `report.html` and `figures/*.svg`, `figures/*.png` into a run folder.

    Returns:
        The path of report.html.

    Raises:
        testbed.errors.InputError: the folder lacks summary.json or topology.json, or a file is malformed.
    """
    run = read_run(run_dir)
    drawings = {"topology": topology(run), **all_figures(run)}
    with styled():
        figures = {name: _inline(drawing, run_dir, name) for name, drawing in drawings.items()}
    page = (
        _environment()
        .get_template("report.html")
        .render(
            title=run.manifest.get("experiment") or run.topology.get("name") or run_dir.name,
            run_name=run_dir.resolve().name,
            summary=run.summary,
            verdict=numbers.verdict(run.summary),
            figures=figures,
            frames_by_type=_frames_by_type(run.summary),
            links=_link_rows(run),
            captures=sorted(
                run.captures, key=lambda one: (-int(one.get("dropped_by_kernel") or 0), one["name"])
            ),
            captures_shown=_CAPTURES_SHOWN,
            recovery=run.summary.get("recovery_s") or [],
            reconciliations=numbers.reconciliations(run.summary),
            manifest=sorted(_flat(run.manifest)),
            css=Markup(_resource("report.css")),
            script=Markup(_resource("report.js")),
        )
    )
    path = run_dir / "report.html"
    path.write_text(page, encoding="utf-8")
    return path


def _inline(drawing: Drawing | None, run_dir: Path, name: str) -> dict[str, Any] | None:
    if drawing is None:
        return None
    return {"svg": Markup(save(drawing.figure, run_dir / "figures", name)), "note": drawing.note}


def _frames_by_type(summary: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """(type, frames, bytes), the most frequent type first."""
    sizes = summary.get("bytes_by_type") or {}
    return [
        (kind, frames, sizes.get(kind)) for kind, frames in numbers.by_type(summary.get("frames_by_type"))
    ]


def _link_rows(run: RunData) -> list[dict[str, Any]]:
    """For each link of the topology: frames by direction and type, and bytes; the busiest first."""
    totals = run.tables["link_totals"].dropna(subset=["link"])
    frames: dict[tuple[int, int], int] = _sums(totals, ["link", "from_node"], "frames")
    kinds: dict[tuple[int, str], int] = _sums(totals, ["link", "type"], "frames")
    sizes: dict[int, int] = _sums(totals, ["link"], "bytes")
    rows = []
    for link in run.topology["links"]:
        index, u, v = link["index"], link["u"], link["v"]
        forward, back = frames.get((index, u), 0), frames.get((index, v), 0)
        messages = kinds.get((index, "MSG"), 0)
        rows.append(
            {
                "u": u,
                "v": v,
                "cost": link["cost"],
                "forward": forward,
                "back": back,
                "messages": messages,
                "control": forward + back - messages,
                "bytes": sizes.get(index, 0),
            }
        )
    return sorted(rows, key=lambda row: -(row["forward"] + row["back"]))


def _sums(table: pd.DataFrame, keys: list[str], column: str) -> dict[Any, int]:
    sums = table.groupby(keys if len(keys) > 1 else keys[0])[column].sum()
    return {key: int(value) for key, value in sums.items()}


def _flat(manifest: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Nested objects as dotted keys."""
    pairs: list[tuple[str, str]] = []
    for key, value in manifest.items():
        if isinstance(value, Mapping):
            pairs += _flat(value, f"{prefix}{key}.")
        elif isinstance(value, list):
            pairs.append((prefix + key, " ".join(map(str, value))))
        else:
            pairs.append((prefix + key, str(value)))
    return pairs


def _resource(name: str) -> str:
    return (files("testbed.report") / name).read_text(encoding="utf-8")


def _environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(_resource),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(count=numbers.count, seconds=numbers.seconds)
    environment.globals.update(share=numbers.share)
    return environment
