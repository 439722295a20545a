"""One emulation, from an experiment to a verdict."""
