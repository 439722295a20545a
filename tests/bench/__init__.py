"""Benchmarks (`./run.sh bench`): ratios measured side by side in one run, medians.

Nothing here is a test.
"""
