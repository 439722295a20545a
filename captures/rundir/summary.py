"""The summary of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from captures.rundir.files import RunFolderError, read_object, write_json
from captures.rundir.layout import RunLayout
from captures.rundir.records import RunFile
from captures.rundir.summary_keys import faults

FILE = RunFile(
    lambda run: [run.summary],
    "The results of the run in numbers. docs/summary.md describes its keys.",
)


def read_summary(run: RunLayout) -> dict[str, Any]:
    """Reads the summary; a key that it lacks is another version's.

    Raises:
        RunFolderError: the file is missing or malformed, or a value has another type than its key says.
    """
    summary = read_object(run.summary)
    for fault in faults(summary):
        raise RunFolderError(f"{run.summary}: {fault}")
    return summary


def write_summary(run: RunLayout, summary: Mapping[str, Any]) -> None:
    """Writes the summary whole or not at all."""
    write_json(run.summary, summary)
