"""Sweeps: an experiment over a grid of parameters and seeds, one table of all runs, intervals and plots.

The options of commands need the names below: the package costs nothing to import.
"""

#: Simulated as tasks of Spark, or emulated one after the other.
ENGINES = ("simulate", "run")
#: What becomes of runs that other code has made: an error, their numbers beside new ones, or a second run.
OTHER_CODE = REFUSE, KEEP, REPEAT = ("refuse", "keep", "repeat")
