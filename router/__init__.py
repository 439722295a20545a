"""A CBCB router: predicates, matching, protocol core, wire format and runtime.

This package imports none of the project's other packages.
"""
