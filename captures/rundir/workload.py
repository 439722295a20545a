"""The workload of a run: what applications ask for and send, and when."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, NotRequired, TypedDict

from captures.rundir.files import read_lines, write_lines
from captures.rundir.layout import RunLayout
from captures.rundir.records import RunFile, check
from router.predicates.model import Value


class WorkloadLine(TypedDict):
    """One request of an application.

    `testbed.workload.model` says which fields belong to which action.
    """

    at_s: Annotated[float, "experiment second of the request"]
    node: Annotated[int, "node of the application"]
    action: Annotated[str, "name of the event, such as `set_predicate` (docs/experiment-file.md)"]
    subscription: NotRequired[
        Annotated[
            str,
            "of subscribe, unsubscribe, register, refresh and unregister: name of the subscription, unique "
            "at the node",
        ]
    ]
    predicate: NotRequired[
        Annotated[str, "of set_predicate, subscribe and register: in the readable notation"]
    ]
    attributes: NotRequired[
        Annotated[Mapping[str, Value], "of send_message and publish: name of the attribute -> value"]
    ]
    max: NotRequired[Annotated[int, "of register: greatest number of publications of a round"]]
    lifetime_s: NotRequired[Annotated[float, "of register: duration of a round, experiment seconds"]]
    freshness_s: NotRequired[
        Annotated[float, "of register: greatest age of a publication, experiment seconds"]
    ]
    app: NotRequired[Annotated[str, "name of the application; without it `workload`"]]


FILE = RunFile(
    lambda run: [run.workload],
    "The requests that the workload makes of the applications, in order of time, one a line.",
    (("", WorkloadLine),),
)


def read_workload(run: RunLayout) -> Iterator[tuple[str, WorkloadLine]]:
    """Reads the requests, each after its place (FILE:LINE); none if the run has no workload.

    Raises:
        RunFolderError: a line is malformed; names file and line.
    """
    if run.workload.exists():
        for where, record in read_lines(run.workload):
            yield where, check(WorkloadLine, where, record)


def write_workload(run: RunLayout, lines: Iterable[WorkloadLine]) -> None:
    """Writes the requests whole or not at all."""
    write_lines(run.workload, lines, ascii_only=False)
