"""The measurements that the runner makes of itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, NotRequired, TypedDict

from captures.rundir.files import RunFolderError, read_object, write_json
from captures.rundir.layout import RunLayout
from captures.rundir.records import RunFile


class Timings(TypedDict):
    """Measurements of a run; the summary repeats them."""

    bring_up_s: NotRequired[Annotated[float, "wall seconds until every router could originate"]]
    run_s: NotRequired[Annotated[float, "wall seconds of the workload, until the network was quiet"]]
    teardown_s: NotRequired[Annotated[float, "wall seconds to take the network down"]]
    workload_lateness_max_s: NotRequired[
        Annotated[float, "wall seconds by which the latest request was sent after its time"]
    ]
    memory_per_router_bytes: NotRequired[Annotated[float, "mean bytes of memory of a router"]]


FILE = RunFile(
    lambda run: [run.timings],
    "Measurements that the runner makes of itself, for the summary. The file is written last: a folder "
    "without it is of a run that was killed, or interrupted before its workload, or still goes on.",
    (("", Timings),),
)


def read_timings(run: RunLayout) -> dict[str, float]:
    """Reads the measurements, by name.

    Raises:
        RunFolderError: the file is missing or holds something else than numbers.
    """
    timings = read_object(run.timings)
    for key, value in timings.items():
        if not isinstance(value, (int, float)):
            raise RunFolderError(f"{run.timings}: {key}: {value!r}; expected a number")
    return timings


def write_timings(run: RunLayout, timings: Mapping[str, float]) -> None:
    """Writes the measurements whole or not at all."""
    write_json(run.timings, timings)
