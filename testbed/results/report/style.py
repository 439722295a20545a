"""Style of figures: one palette, one font size, and SVG whose text colour is that of the page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.ticker import AutoLocator, FuncFormatter, LogLocator, NullLocator, SymmetricalLogLocator

from testbed.terminal import numbers

#: Okabe and Ito's palette, distinct under every common form of colour blindness; legible on light and dark.
#: The curves of a figure have its colours in this order.
CURVE_COLOURS = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9")
BLUE, ORANGE, GREEN, VERMILLION, PURPLE, SKY = CURVE_COLOURS
ACCENT = BLUE
#: No run has more than four of these frame types, and none has two of one colour.
TYPE_COLOURS = {"MSG": BLUE, "RA": ORANGE, "SR": GREEN, "UR": PURPLE}
TYPE_COLOURS |= {"PUB": BLUE, "SUB": ORANGE, "OVERLOAD": GREEN, "FLUSH": PURPLE}
GREY = "#8a8f98"
#: Nodes keep their colour on a dark page, since numbers are written on them.
NODE = "#56606d"


def _settings(name: str) -> dict[Any, Any]:
    """Returns the settings of a style file of this package."""
    path = Path(__file__).with_name(f"{name}.mplstyle")
    return mpl.rc_params_from_file(path, fail_on_error=True, use_default_template=False)


_REPORT = _settings("report")
#: Inline figures replace these three by the colours of text, rules and ground of the page.
INK = _REPORT["text.color"]
RULE = _REPORT["grid.color"]
GROUND = "#fefefe"


@dataclass(frozen=True)
class Style:
    """A style of figures.

    Attributes:
        settings: of matplotlib.
        column_in: width of a column of text, inches, which the figures fill; None: their widths are kept.
        gap_in: inches between two columns.
        least_ratio: least height of a figure, in widths.
    """

    settings: dict[Any, Any]
    column_in: float | None = None
    gap_in: float = 0.0
    least_ratio: float = 0.0


#: By the name on the command line.
STYLES = {
    "report": Style(_REPORT),
    "paper": Style(_REPORT | _settings("paper"), column_in=3.33, gap_in=0.34, least_ratio=0.55),
}
_in_force: ContextVar[Style] = ContextVar("style", default=STYLES["report"])
#: Figures that are wider than this, in inches, fill two columns of a paper.
_TWO_COLUMNS_IN = 8.0
#: Width of a digit and height of a line, in sizes of the font.
_DIGIT, _LINE = 0.64, 1.2


@contextmanager
def styled(style: Style | None = None) -> Iterator[None]:
    """Applies a style to figures made inside the block, and no `matplotlibrc`, which may be a stranger's.

    Args:
        style: None: the style of the block around this one, or else that of the report.
    """
    chosen = style or _in_force.get()
    token = _in_force.set(chosen)
    try:
        with mpl.rc_context():
            mpl.rcdefaults()
            mpl.rcParams.update(chosen.settings)
            yield
    finally:
        _in_force.reset(token)


def empty_figure(width_in: float, height_in: float) -> Figure:
    """Returns a figure without axes, made without pyplot: no global list of figures, no display.

    In a style with columns, its width is that of one column or of two, and its height follows.
    """
    style = _in_force.get()
    if style.column_in is None:
        return Figure(figsize=(width_in, height_in))
    width = style.column_in if width_in <= _TWO_COLUMNS_IN else 2 * style.column_in + style.gap_in
    return Figure(figsize=(width, width * max(height_in / width_in, style.least_ratio)))


def new_figure(width_in: float, height_in: float) -> tuple[Figure, Axes]:
    figure = empty_figure(width_in, height_in)
    return figure, figure.add_subplot()


def axis_from_zero(axes: Axes, highest: float, unit: float = 1.0, most: float | None = None) -> None:
    """Scales the vertical axis from 0 to a little above the highest value; to `unit` if all values are 0.

    Args:
        most: the axis ends there at the latest.
    """
    top = 1.08 * highest if highest > 0 else unit
    axes.set_ylim(0, top if most is None else min(most, top))


def set_logarithmic_ticks(axis: Axis) -> None:
    """Gives a logarithmic axis, whose limits are final, ticks at 1, 2, 5, 10, ... if their labels have room.

    Otherwise they are powers of 10. An axis that has less than two of those has ticks as a linear one. The
    labels are plain numbers: matplotlib writes formulas, whose source text a style would show.
    """
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _position: numbers.plain(value)))
    for subs in ((1.0, 2.0, 5.0), (1.0,)):
        if axis.get_scale() == "symlog":
            axis.set_major_locator(SymmetricalLogLocator(axis.get_transform(), subs=subs))
        else:
            axis.set_major_locator(LogLocator(subs=subs))
        ticks = _ticks(axis)
        if _have_room(axis, ticks):
            break
    if len(ticks) < 2:
        axis.set_major_locator(AutoLocator())


def _ticks(axis: Axis) -> npt.NDArray[np.float64]:
    """Returns the ticks of an axis between its ends, ascending."""
    low, high = sorted(axis.get_view_interval())
    ticks = np.sort(axis.get_majorticklocs())
    return ticks[(low <= ticks) & (ticks <= high)]


def _have_room(axis: Axis, ticks: npt.NDArray[np.float64]) -> bool:
    """Whether no label of ticks meets the next, in the space that the axes have before the layout."""
    low, high, *places = axis.get_transform().transform([*axis.get_view_interval(), *ticks])
    horizontal = axis is axis.axes.xaxis
    box = axis.axes.bbox
    length_pt = (box.width if horizontal else box.height) * 72 / axis.axes.figure.dpi
    size_pt = FontProperties(size=mpl.rcParams["xtick.labelsize"]).get_size_in_points()
    # Half of each of two labels is between their ticks.
    lengths = [size_pt * (_DIGIT * len(numbers.plain(tick)) if horizontal else _LINE) for tick in ticks]
    needed = [(one + other) / 2 for one, other in pairwise(lengths)]
    return bool(np.all(np.diff(places) * length_pt >= np.array(needed) * abs(high - low)))


def save(figure: Figure, folder: Path, name: str) -> str:
    """Writes `name.svg` (no ground) and `name.png` (white ground); returns the SVG element for a page.

    In the returned text, identifiers begin with `name`, so that several figures can share a page, and ink,
    rules and ground are the CSS colours `currentColor`, `var(--rule)` and `var(--ground)`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    # No dates: equal runs give equal files.
    with mpl.rc_context({"svg.hashsalt": name, "figure.constrained_layout.use": False}):
        figure.draw_without_rendering()
        # The layout is final; otherwise each file would compute it. By the setting, the figure has no engine
        # at all: with "none" it has one that does nothing, for which each file is drawn twice.
        figure.set_layout_engine()
        figure.savefig(folder / f"{name}.png", facecolor="white", dpi=160)
        path = folder / f"{name}.svg"
        figure.savefig(path, transparent=True, metadata={"Date": None})
    return _for_page(path.read_text(encoding="utf-8"), name)


def save_pdf(figure: Figure, folder: Path, name: str) -> Path:
    """Writes `name.pdf` and returns its path; equal figures give equal files."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.pdf"
    figure.savefig(path, metadata={"CreationDate": None})
    return path


def _for_page(svg: str, name: str) -> str:
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r'(href="#|url\(#)', rf"\1{name}-", svg)
    # The page sets the size of the figure; the view box keeps its proportions.
    svg = re.sub(r'<svg ([^>]*?)\bheight="[^"]*"', r"<svg \1", svg, count=1)
    svg = re.sub(r'<svg ([^>]*?)\bwidth="[^"]*"', r'<svg \1aria-hidden="true"', svg, count=1)
    return svg.replace(INK, "currentColor").replace(RULE, "var(--rule)").replace(GROUND, "var(--ground)")
