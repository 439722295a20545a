"""The cost of a simulation."""

from __future__ import annotations

from typing import Annotated, TypedDict

from captures.rundir.files import read_object, write_json
from captures.rundir.layout import RunLayout
from captures.rundir.records import RunFile, check


class SimulationCost(TypedDict):
    """The cost of a simulation."""

    events: Annotated[int, "events of the agenda from the start of the workload to the end"]
    set_up_cpu_s: Annotated[float, "CPU seconds of the set-up"]
    cpu_s: Annotated[float, "CPU seconds of these events"]
    events_per_cpu_s: Annotated[int | None, "events per CPU second; null if they took no time"]
    virtual_s: Annotated[float, "virtual seconds from the beginning to the end"]
    memory_per_router_bytes: Annotated[int, "resident bytes that the network added, per router"]
    peak_memory_bytes: Annotated[int, "largest resident memory of the process, bytes"]


FILE = RunFile(
    lambda run: [run.simulation],
    "The cost of a simulation; emulations do not have the file.",
    (("", SimulationCost),),
)


def read_simulation(run: RunLayout) -> SimulationCost:
    """Reads the cost of a simulation.

    Raises:
        RunFolderError: the file is missing, or a field is missing or malformed.
    """
    document = read_object(run.simulation)
    return check(SimulationCost, str(run.simulation), document)


def write_simulation(run: RunLayout, cost: SimulationCost) -> None:
    """Writes the cost of a simulation whole or not at all."""
    write_json(run.simulation, cost)
