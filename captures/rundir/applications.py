"""The log of the applications.

`router.records.application_log` has its records and its writer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from captures.rundir.files import RunFolderError, read_lines
from captures.rundir.layout import RunLayout
from captures.rundir.records import RunFile, check
from router.records.application_log import APPLICATION_EVENTS, ApplicationEvent

__all__ = ["FILE", "ApplicationEvent", "application_event", "read_applications"]

FILE = RunFile(
    lambda run: [run.applications_log],
    "The events of the applications, one a line; times are wall clock in ns since 1970 UTC. Types in "
    "`filters` are `string`, `integer`, `double` and `boolean`, operators are the symbols "
    "`= != < > <= >= =* *= ** any`.",
    tuple((f"Event `{name}`", record) for name, record in APPLICATION_EVENTS.items()),
)


def read_applications(run: RunLayout) -> Iterator[tuple[str, ApplicationEvent]]:
    """Reads the events, each after its place (FILE:LINE).

    Raises:
        RunFolderError: the log is missing, or a line is malformed.
    """
    for where, record in read_lines(run.applications_log):
        yield where, application_event(where, record)


def application_event(where: str, record: dict[str, Any]) -> ApplicationEvent:
    """A line of the log as an event.

    Raises:
        RunFolderError: the event is unknown, or a field is missing or malformed; names `where`.
    """
    name = record.get("event")
    event = APPLICATION_EVENTS.get(name) if isinstance(name, str) else None
    if event is None:
        if "event" not in record:
            raise RunFolderError(f"{where}: no field 'event'")
        raise RunFolderError(f"{where}: event: {name!r}; expected {' or '.join(APPLICATION_EVENTS)}")
    check(event, where, record)
    return cast("ApplicationEvent", record)
