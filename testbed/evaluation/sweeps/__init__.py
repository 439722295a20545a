"""Sweeps: an experiment over a grid of parameters and seeds, one table of all runs, intervals and plots."""
