"""The engines that carry out the runs of a sweep or a figure.

A module of its own, which costs nothing to import: the options of `cbcb figure` need the names.
"""

from __future__ import annotations

#: Simulated as tasks of Spark, or emulated one after the other.
ENGINES = ("simulate", "run")
