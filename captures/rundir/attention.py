"""The records of the attention-limited service in a run folder: those of its routers, or of its simulation.

`router.records.attention` has the records and their writer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from captures.rundir.files import RunFolderError, missing, read_lines
from captures.rundir.layout import RunLayout
from captures.rundir.records import RunFile, check
from router.records.attention import ATTENTION_EVENTS, AttentionEvent

__all__ = ["FILE", "AttentionEvent", "read_attention"]

#: Events by record: `register` and `refresh` have the same one.
_HEADINGS = {
    record: " and ".join(f"`{name}`" for name, each in ATTENTION_EVENTS.items() if each is record)
    for record in ATTENTION_EVENTS.values()
}

FILE = RunFile(
    lambda run: [run.service_records_of("<n>"), run.simulated_service_records],
    'What the router of node n did for its applications with [service] `kind = "attention"`, or all routers '
    "of a simulation: one event a line, in order of time. The router writes a line at most about 0.1 s after "
    "the event, and the last lines when it ends.",
    tuple((f"Event {heading}", record) for record, heading in _HEADINGS.items()),
)


def read_attention(run: RunLayout) -> Iterator[tuple[str, AttentionEvent]]:
    """Reads the events, each after its place (FILE:LINE): those of a node in order of time.

    The end of a file whose last line was not finished is left out.

    Raises:
        RunFolderError: the folder is missing, as it is with another service, or a line is malformed.
    """
    if not run.service_folder.is_dir():
        raise missing(run.service_folder)
    for path in sorted(run.service_folder.glob("*.jsonl")):
        for where, record in read_lines(path, unfinished=True):
            yield where, attention_event(where, record)


def attention_event(where: str, record: Mapping[str, Any]) -> AttentionEvent:
    """Returns the record of an event.

    Raises:
        RunFolderError: it is malformed.
    """
    name = record.get("event")
    known = ATTENTION_EVENTS.get(name) if isinstance(name, str) else None
    if known is None:
        raise RunFolderError(f"{where}: event: {name!r}; expected {' or '.join(ATTENTION_EVENTS)}")
    return cast("AttentionEvent", check(known, where, record))
