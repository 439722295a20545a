"""The compiler of the data plane, and the sources on which its machine code depends."""

from __future__ import annotations

from router.matching.compiled.compiler import COMPILER as MATCHING
from router.native.compiler import Compiler

#: Matching is compiled into the data plane.
COMPILER = Compiler(
    "forwarding",
    "router.forwarding",
    "router.wire.addresses",
    "router.wire.header",
    "router.recording.format",
    *MATCHING.sources,
)
kernel, callee = COMPILER.kernel, COMPILER.callee
