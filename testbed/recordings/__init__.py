"""Replay of the recordings of a run's routers: tables at any time, and the reasons of decisions."""
