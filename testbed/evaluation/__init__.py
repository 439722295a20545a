"""Figures of the papers, sweeps of parameters, and attacks on private frames: each reads whole runs."""
