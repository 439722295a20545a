"""Matching of sets of bits: the filters B_f that are subsets of B_m (slides, part IV)."""
