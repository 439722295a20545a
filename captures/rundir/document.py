"""The text of docs/run-folder.md."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from captures.rundir import (
    applications,
    attention,
    capture_list,
    clock,
    commands,
    controller,
    counters,
    faults,
    lag,
    manifest,
    oracle,
    others,
    routing_tables,
    simulation,
    stages,
    subscriptions,
    summary,
    timings,
    topology,
    workload,
)
from captures.rundir.layout import RunLayout
from captures.rundir.records import RunFile, fields

#: Every file of a run folder, in the order of the document.
FILES: tuple[RunFile, ...] = (
    others.EXPERIMENT,
    topology.FILE,
    workload.FILE,
    manifest.FILE,
    others.KEYS,
    others.NETWORK_KEYS,
    others.SIGNING_KEYS,
    clock.FILE,
    capture_list.FILES_FILE,
    others.CAPTURE_INDEX,
    capture_list.FILE,
    applications.FILE,
    commands.FILE,
    faults.FILE,
    attention.FILE,
    controller.FILE,
    routing_tables.FILE,
    others.CONTROLLER_PROCESS,
    others.ROUTERS_PROCESS,
    others.ROUTERS,
    others.SPARK,
    others.RECORDINGS,
    counters.ROUTERS_FILE,
    counters.SWITCHES_FILE,
    counters.DROPS_FILE,
    lag.FILE,
    timings.FILE,
    simulation.FILE,
    oracle.FILE,
    subscriptions.SUBSCRIPTIONS,
    subscriptions.JUDGEMENT,
    others.TABLES,
    others.TABLES_AT_WORK,
    stages.FILE,
    summary.FILE,
    others.REPORT,
)
_HEAD = """# The run folder

A run writes one folder, `captures/runs/<id>/`. `captures.rundir` names its files, and reads and writes them.
This document is made from that package by `python -m testbed.documents`.

| file | content |
|---|---|
"""


def document() -> str:
    """The text of docs/run-folder.md."""
    return _HEAD + "\n".join(_rows()) + "\n" + "".join(_records())


def names_of(file: RunFile) -> str:
    """The paths of a file in a run folder, as Markdown."""
    run = RunLayout(Path())
    return ", ".join(f"`{path.as_posix()}`" for path in file.names(run))


def _rows() -> Iterator[str]:
    for file in FILES:
        yield f"| {names_of(file)} | {_cell(file.sentence)} |"


def _records() -> Iterator[str]:
    for file in FILES:
        if not file.records:
            continue
        yield f"\n## {names_of(file)}\n"
        for heading, record in file.records:
            if heading:
                yield f"\n### {heading}\n"
            sentence = re.sub(r"\s+", " ", (record.__doc__ or "").strip())
            yield f"\n{sentence}\n\n| field | value | meaning |\n|---|---|---|\n"
            for field in fields(record):
                optional = "" if field.required else "; may be absent"
                yield f"| `{field.name}` | {field.expected}{optional} | {_cell(field.meaning)} |\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
