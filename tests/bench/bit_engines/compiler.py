"""The compiler of the engines for comparison."""

from __future__ import annotations

from router.native.compiler import Compiler

COMPILER = Compiler("bench-bits", "tests.bench.bit_engines")
kernel, callee = COMPILER.kernel, COMPILER.callee
