"""Emulation of an experiment: bring-up, workload and take-down."""
