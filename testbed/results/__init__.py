"""Answers about a run: oracle, conclusion, report, trace, replay, live view, and the folders of runs."""
