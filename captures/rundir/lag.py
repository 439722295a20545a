"""How late the parts of a run were."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired, TypedDict, cast

from captures.rundir.files import RunFolderError, as_object, read_object, write_json
from captures.rundir.layout import RunLayout
from captures.rundir.records import RunFile, check

PartName = Literal["router", "workload", "switches", "captures", "controller"]


class PartLag(TypedDict):
    """The lag of a part from `from_s` until the end of the workload.

    Lag is how long something that the part had to do had waited: a frame in a router's socket, in Open
    vSwitch or in a capture's ring, a deadline that had passed, an item of the workload after its time, a
    request of the workload until its answer. That of the controller is not measured, and 0. A turn of a loop
    goes from the end of a wait to the next wait.
    """

    part: Annotated[PartName, "the part"]
    node: NotRequired[Annotated[int, "node of a router"]]
    lag_s: Annotated[
        float,
        "greatest lag in experiment seconds: those that had passed since something was due on the clock, or "
        "the wall seconds that something had waited at the rate of that time",
    ]
    lag_wall_s: Annotated[float, "greatest lag in wall seconds"]
    lag_at_s: Annotated[float, "experiment second of the greatest lag"]
    turn_s: NotRequired[Annotated[float, "longest turn of the part's loop, wall seconds"]]
    turn_of: NotRequired[
        Annotated[
            str,
            "what that turn of a router did last: type of a frame, `deadline`, `request`, or `compiled` "
            "(messages and requests in compiled code alone); empty: nothing, or another part",
        ]
    ]
    turn_at_s: NotRequired[Annotated[float, "experiment second at which that turn ended"]]
    turn_cpu_s: NotRequired[
        Annotated[
            float,
            "greatest CPU time of a turn, seconds; a turn in which other processes had the processor is "
            "longer in wall time",
        ]
    ]


class Answers(TypedDict):
    """The delay of routers' answers: from the request of an application of the workload to its answer."""

    median_s: Annotated[float, "median, wall seconds"]
    p99_s: Annotated[float, "99 % of the answers came within these wall seconds"]
    max_s: Annotated[float, "greatest delay, wall seconds"]


class LagReport(TypedDict):
    """How late the parts of the run were, and how late they may be."""

    from_s: Annotated[
        float, "experiment second from which lag counts: the opening predicates had spread, nothing waited"
    ]
    bound_s: Annotated[float, "greatest lag of a valid run, experiment seconds"]
    bound_wall_s: Annotated[float, "greatest lag of a valid run, wall seconds"]
    parts: Annotated[list[PartLag], "the parts that measure themselves"]
    answers: Annotated[Answers | None, "the delay of routers' answers; null without a request"]


FILE = RunFile(
    lambda run: [run.lag],
    "How late the parts of an emulation were (docs/clock.md); simulations do not have the file.",
    (("", LagReport), ("`parts`", PartLag), ("`answers`", Answers)),
)


def read_lag(run: RunLayout) -> LagReport | None:
    """Reads the report; None if the run has none.

    Raises:
        RunFolderError: a field is missing or malformed.
    """
    if not run.lag.exists():
        return None
    document = read_object(run.lag)
    check(LagReport, str(run.lag), document)
    if document["answers"] is not None:
        check(Answers, f"{run.lag}: answers", document["answers"])
    for number, part in enumerate(document["parts"]):
        where = f"{run.lag}: part {number}"
        check(PartLag, where, as_object(where, part))
        if part["part"] == "router" and "node" not in part:
            raise RunFolderError(f"{where}: no field 'node'")
    return cast("LagReport", document)


def write_lag(run: RunLayout, report: LagReport) -> None:
    """Writes the report whole or not at all."""
    write_json(run.lag, report)
