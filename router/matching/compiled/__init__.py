"""The fast engine: access predicates over contiguous postings, compiled with Numba."""
