"""Machine code from Python functions: compilation, storage, memory by address.

Imports Numba.
"""
