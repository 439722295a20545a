"""The functions that are fuzzed: they take any bytes, and raise nothing but the errors of wrong input."""

from __future__ import annotations

from tests.fuzz.corpus import kept
from tests.fuzz.inputs import Run
from tests.fuzz.of_captures import frames, packets, pcap
from tests.fuzz.of_router import core, decoder, intake, recordings, sockets
from tests.fuzz.of_users import contents, control, experiments, parsers, topologies, workloads

#: By name; each makes the function that takes inputs.
TARGETS = {
    make.__name__: make
    for make in (
        *(decoder, intake, core, parsers, topologies, workloads, contents, experiments, control, sockets),
        *(pcap, frames, packets, recordings),
    )
}


def warm(target: str) -> Run:
    """A target that has imported and compiled what its inputs need: none of them pays for that."""
    run = TARGETS[target]()
    for data in (b"", bytes(64), bytes(range(256)), *kept(target)):
        run(data)
    return run
