"""The functions that are fuzzed: they take any bytes, and raise nothing but the errors of wrong input.

Each target imports its modules when it is made, so that an engine can instrument them before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.fuzz.inputs import LONGEST, Run
from tests.fuzz.of_captures import frames, packets, pcap
from tests.fuzz.of_router import core, decoder, intake, recordings, sockets
from tests.fuzz.of_users import contents, control, experiments, parsers, topologies, workloads

__all__ = ["LONGEST", "TARGETS", "Run", "Target"]


@dataclass(frozen=True)
class Target:
    """Something that is fuzzed.

    Attributes:
        make: returns the function that takes inputs.
        packages: are instrumented for coverage. Compiled code cannot be.
        share: of the time, in units: 1 for 5,000 inputs in a second and more, 2 for 1,000, 4 for fewer.
        loops: modules of loops that it runs compiled and as plain Python; the plain ones are instrumented.
        doc: a few words.
    """

    make: Callable[[], Run]
    packages: tuple[str, ...]
    share: int
    loops: tuple[str, ...]
    doc: str


#: By name.
TARGETS = {
    make.__name__: Target(make, packages, share, tuple(loops), (make.__doc__ or "").splitlines()[0])
    for make, packages, share, *loops in (
        (decoder, ("router",), 1),
        (intake, ("router",), 1),
        (core, ("router",), 4),
        (parsers, ("router", "testbed"), 1),
        (topologies, ("topos",), 1),
        (workloads, ("testbed", "router"), 2),
        (contents, ("testbed", "router"), 2),
        (experiments, ("testbed", "router", "topos"), 2),
        (control, ("testbed", "router"), 2),
        (sockets, ("router",), 2),
        (pcap, ("captures",), 4, "captures.pcap.walk"),
        (frames, ("captures", "router"), 4, "captures.pcap.blocks", "captures.frames.messages"),
        (packets, ("captures",), 2, "captures.pcap.links", "captures.pcap.internet"),
        (recordings, ("router",), 1),
    )
}
