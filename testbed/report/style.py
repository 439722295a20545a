"""Style of figures: one palette, one font size, and SVG whose text colour is that of the page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

#: Okabe and Ito's palette, distinct under every common form of colour blindness; legible on light and dark.
BLUE, ORANGE, GREEN, VERMILLION, PURPLE, SKY = (
    "#0072b2",
    "#e69f00",
    "#009e73",
    "#d55e00",
    "#cc79a7",
    "#56b4e9",
)
ACCENT = BLUE
TYPE_COLOURS = {"MSG": BLUE, "RA": ORANGE, "SR": GREEN, "UR": PURPLE}
GREY = "#8a8f98"
#: Nodes keep their colour on a dark page, since numbers are written on them.
NODE = "#56606d"
#: Inline figures replace these two by the text and rule colours of the page.
INK = "#1b1f24"
RULE = "#d8dbe0"

_SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",
    # The name of a run is no formula.
    "text.parse_math": False,
    "font.size": 10,
    "font.family": "DejaVu Sans",
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": RULE,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": RULE,
    "grid.linewidth": 0.8,
    "lines.linewidth": 1.6,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
}


@contextmanager
def styled() -> Iterator[None]:
    """Applies the report's style to figures made inside the block; other matplotlib settings are
    unchanged."""
    with mpl.rc_context(_SETTINGS):
        yield


def new_figure(width_in: float, height_in: float) -> tuple[Figure, Axes]:
    """Returns a figure with one pair of axes, made without pyplot: no global list of figures, no display."""
    figure = Figure(figsize=(width_in, height_in))
    return figure, figure.add_subplot()


def save(figure: Figure, folder: Path, name: str) -> str:
    """Writes `name.svg` (no ground) and `name.png` (white ground); returns the SVG element for a page.

    In the returned text, identifiers begin with `name`, so that several figures can share a page, and ink
    and rules are the CSS colours `currentColor` and `var(--rule)`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    # No dates: equal runs give equal files.
    with mpl.rc_context({"svg.hashsalt": name}):
        figure.draw_without_rendering()
        # The layout is final; otherwise each file would compute it.
        figure.set_layout_engine("none")
        figure.savefig(folder / f"{name}.png", facecolor="white", dpi=160)
        path = folder / f"{name}.svg"
        figure.savefig(path, transparent=True, metadata={"Date": None})
    return _for_page(path.read_text(encoding="utf-8"), name)


def _for_page(svg: str, name: str) -> str:
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r'(href="#|url\(#)', rf"\1{name}-", svg)
    # The page sets the size of the figure; the view box keeps its proportions.
    svg = re.sub(r'<svg ([^>]*?)\bheight="[^"]*"', r"<svg \1", svg, count=1)
    svg = re.sub(r'<svg ([^>]*?)\bwidth="[^"]*"', r'<svg \1aria-hidden="true"', svg, count=1)
    return svg.replace(INK, "currentColor").replace(RULE, "var(--rule)")
