"""The papers' evaluation, reproduced: experiments, statements that are held against them, pages."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

#: The layers that the papers compare.
LAYERS = ("spt", "spanning-tree")
#: Schemes, layers and services whose rules are not those of the papers (docs/figures/README.md), and are.
AMENDED = (
    *("pif", "pif-classes", "psf", "ips", "drp", "flooding", "topics", "unicast", "multicast"),
    *("spt", "rpf", "attention"),
)
UNCHANGED = ("pif-strict", "spanning-tree")
#: Points of a curve, (t or x, value).
Points = Sequence[tuple[float, float]]
#: Most points of a curve over time that are kept and drawn.
KEPT_POINTS = 400
#: A function of what was measured in a run.
Number = Callable[[Mapping[str, Any]], float | None]
