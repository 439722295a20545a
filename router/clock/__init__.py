"""Experiment time: a piecewise linear function of the machine's monotonic clock, for all parts of a run."""
