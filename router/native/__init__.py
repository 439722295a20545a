"""Machine code from Python functions: compiling it, keeping it, memory by address. Imports numba."""
