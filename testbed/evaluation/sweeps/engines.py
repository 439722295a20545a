"""Names that the options of commands need: this module costs nothing to import."""

from __future__ import annotations

#: Simulated as tasks of Spark, or emulated one after the other.
ENGINES = ("simulate", "run")
#: What becomes of runs that other code has made: an error, their numbers beside new ones, or a second run.
OTHER_CODE = REFUSE, KEEP, REPEAT = ("refuse", "keep", "repeat")
