"""The compiler of the engines for sets of bits, and the sources on which its machine code depends."""

from __future__ import annotations

from router.native.compiler import Compiler

COMPILER = Compiler("bloom", "router.matching.bloom")
kernel, callee = COMPILER.kernel, COMPILER.callee
