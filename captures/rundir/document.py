"""The text of docs/reference/run-folder.md."""

from __future__ import annotations

import re
import textwrap
import tomllib
from collections.abc import Iterator, Sequence
from functools import partial
from importlib.resources import files
from pathlib import Path

from captures.pcap.listing import INDEX_SUFFIX
from captures.rundir import (
    RunLayout,
    applications,
    capture_list,
    clock,
    controller,
    counters,
    faults,
    inputs,
    measures,
    oracle,
    routing_tables,
    summary,
)
from captures.rundir.files import Document, Log, RunFile
from router.records.forms import Field, NodeNumber, TimeNs, expected, fields


def _named(names: str, run: RunLayout) -> list[Path]:
    """The paths of `run` with these names; a path of one router is that of router <n>."""
    found = (getattr(run, name) for name in names.split())
    return [path("<n>") if callable(path) else path for path in found]


#: Files whose format another package owns, or that are read by people only.
OTHERS = {
    name: RunFile(partial(_named, names), sentence)
    for name, (names, sentence) in tomllib.loads(
        files(__package__).joinpath("others.toml").read_text(encoding="utf-8")
    ).items()
}
CAPTURE_INDEX = RunFile(
    lambda run: [run.captures_folder / f"*{INDEX_SUFFIX}"],
    "Where the parts of a large capture begin (`captures.frames.index`); the accounting writes it.",
)
#: Every file of a run folder, in the order of the document.
FILES: tuple[RunFile, ...] = (
    OTHERS["experiment"],
    inputs.TOPOLOGY,
    inputs.WORKLOAD,
    inputs.MANIFEST,
    OTHERS["keys"],
    OTHERS["network_keys"],
    OTHERS["signing_keys"],
    clock.CLOCK,
    capture_list.CAPTURE_FILES,
    CAPTURE_INDEX,
    capture_list.CAPTURES,
    applications.APPLICATIONS,
    faults.COMMANDS,
    faults.FAULTS,
    applications.SERVICE,
    controller.CONTROLLER,
    routing_tables.ROUTING_TABLES,
    OTHERS["controller_process"],
    OTHERS["routers_process"],
    OTHERS["routers"],
    OTHERS["spark"],
    OTHERS["recordings"],
    counters.ROUTERS,
    counters.SWITCHES,
    counters.DROPS,
    measures.LAG,
    measures.TIMINGS,
    measures.SIMULATION,
    oracle.ORACLE,
    oracle.SUBSCRIPTIONS,
    oracle.JUDGEMENT,
    OTHERS["tables"],
    OTHERS["tables_at_work"],
    measures.ACCOUNTING,
    summary.SUMMARY,
    OTHERS["report"],
)
#: More records of a file are in one table, with their fields in another.
_FEW = 3
#: The greatest length of a line of a page.
_WIDTH = 160


def document() -> str:
    """The files of docs/reference/run-folder.md, and their records."""
    return "\n".join(_rows()) + "\n" + "".join(_records())


def names_of(file: RunFile) -> str:
    """The paths of a file in a run folder, as Markdown."""
    run = RunLayout(Path())
    return ", ".join(f"`{path.as_posix()}`" for path in file.names(run))


def records_of(file: RunFile) -> tuple[tuple[str, type], ...]:
    """Heading and type of each record of a file."""
    if not file.records and isinstance(file, Document | Log) and fields(file.form):
        return (("", file.form),)
    return file.records


def _rows() -> Iterator[str]:
    for file in FILES:
        yield bullet(f"{names_of(file)}: {file.sentence}")


def _records() -> Iterator[str]:
    for file in FILES:
        records = records_of(file)
        if records:
            yield f"\n## {textwrap.shorten(names_of(file), _WIDTH - 3, placeholder=' ...')}\n"
        if len(records) > _FEW:
            yield from _events(records)
            continue
        for heading, record in records:
            if heading:
                yield f"\n### {heading}\n"
            yield f"\n{filled(_sentence(record))}\n\n"
            for field in fields(record):
                yield bullet(f"`{field.name}`, {_value(field)}: {field.meaning}") + "\n"


def _events(records: Sequence[tuple[str, type]]) -> Iterator[str]:
    """The records of a log: each with its fields, and each field once with what all records say of it."""
    yield "\n"
    meanings: dict[str, dict[str, list[str]]] = {}
    common = set.intersection(*({field.name for field in fields(record)} for _, record in records))
    for heading, record in records:
        names = heading.removeprefix("Event ")
        own = [field for field in fields(record) if field.name != "event"]
        listed = ", ".join(f"`{field.name}`" for field in own if field.name not in common)
        yield bullet(f"{names}{f' ({listed})' if listed else ''}: {_sentence(record)}") + "\n"
        for field in own:
            meaning = f"{_value(field)}: {field.meaning}"
            meanings.setdefault(field.name, {}).setdefault(meaning, []).append(names)
    yield "\nFields:\n\n"
    for name, variants in meanings.items():
        for meaning, of in variants.items():
            records_with = f" ({', '.join(of)})" if len(variants) > 1 else ""
            yield bullet(f"`{name}`{records_with}, {meaning}") + "\n"


def bullet(text: str) -> str:
    """An item of a list, in lines of a page."""
    return filled(f"- {text}", indent="  ")


def filled(text: str, *, indent: str = "") -> str:
    """A paragraph, in lines of a page."""
    return textwrap.fill(
        text, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def _sentence(record: type) -> str:
    return re.sub(r"\s+", " ", (record.__doc__ or "").strip())


def _value(field: Field) -> str:
    words = field.expected.replace(expected(TimeNs), "time").replace(expected(NodeNumber), "node")
    return words.removeprefix("an ").removeprefix("a ") + ("" if field.required else ", optional")
