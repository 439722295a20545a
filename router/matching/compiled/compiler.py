"""The compiler of the engine, and the sources on which its machine code depends."""

from __future__ import annotations

from router.native.compiler import Compiler

#: The machine code contains constants of the model and of the wire format.
COMPILER = Compiler(
    "matching",
    "router.matching.compiled",
    "router.predicates.model",
    "router.wire.format",
    "router.wire.message",
    "router.wire.tlv",
)
kernel, callee = COMPILER.kernel, COMPILER.callee
