"""What compiles the engine, and of which sources its machine code is made."""

from __future__ import annotations

from router.native.compiler import Compiler

#: Numbers of the model and of the wire format stand in the machine code.
COMPILER = Compiler(
    "matching", "router.matching.compiled", "router.predicates.model", "router.wire.format", "router.wire.tlv"
)
kernel, callee = COMPILER.kernel, COMPILER.callee
