"""The functions that are fuzzed: they take any bytes, and raise nothing but the errors of wrong input.

Each target imports its modules when it is made, so that an engine can instrument them before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tests.fuzz.inputs import Run
from tests.fuzz.of_captures import frames, packets, pcap
from tests.fuzz.of_router import core, decoder, intake, recordings, sockets
from tests.fuzz.of_users import contents, control, experiments, parsers, topologies, workloads


class Target(NamedTuple):
    """Something that is fuzzed.

    Attributes:
        make: returns the function that takes inputs.
        packages: are instrumented for coverage. Compiled code cannot be.
        share: of the time, in units: 1 for 5,000 inputs in a second and more, 2 for 1,000, 4 for fewer.
        loops: modules of loops that it runs compiled and as plain Python; the plain ones are instrumented.
    """

    make: Callable[[], Run]
    packages: tuple[str, ...]
    share: int
    loops: tuple[str, ...] = ()


#: By name.
TARGETS = {
    target.make.__name__: target
    for target in (
        Target(decoder, ("router",), 1),
        Target(intake, ("router",), 1),
        Target(core, ("router",), 4),
        Target(parsers, ("router", "testbed"), 1),
        Target(topologies, ("topos",), 1),
        Target(workloads, ("testbed", "router"), 2),
        Target(contents, ("testbed", "router"), 2),
        Target(experiments, ("testbed", "router", "topos"), 2),
        Target(control, ("testbed", "router"), 2),
        Target(sockets, ("router",), 2),
        Target(pcap, ("captures",), 4, ("captures.pcap.walk",)),
        Target(frames, ("captures", "router"), 4, ("captures.pcap.blocks", "captures.frames.messages")),
        Target(packets, ("captures",), 2, ("captures.pcap.links", "captures.pcap.internet")),
        Target(recordings, ("router",), 1),
    )
}
