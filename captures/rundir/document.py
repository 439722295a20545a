"""The text of docs/reference/run-folder.md."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import captures.rundir
from captures.rundir import At, RunLayout
from captures.rundir.files import Document, Log, RunFile
from router.records.forms import Field, NodeNumber, TimeNs, expected, fields

# Files whose format another package owns, or that are read by people only.
EXPERIMENT = RunFile(
    lambda run: [run.experiment],
    "The experiment as it was run, with every default filled in; "
    "`testbed.experiments.config` reads and writes it.",
)
KEYS = RunFile(
    lambda run: [run.keys],
    "The keys of the members of a run with privacy, drawn from the seed or those of `privacy.key_file`, in "
    "the form of `cbcb pub --key-file` (`router.privacy`).",
)
NETWORK_KEYS = RunFile(
    lambda run: [run.network_keys],
    "The keys of routers and controller of a run with `[security]`, drawn from the seed or derived from "
    "`security.key_file` (`router.privacy`).",
)
SIGNING_KEYS = RunFile(
    lambda run: [run.signing_keys],
    'The signing keys of a run with `[security] mode = "signed"`, drawn from the seed or derived from '
    "`security.signing_keys` (`router.security.signatures`).",
)
CONTROLLER_PROCESS = RunFile(
    lambda run: [run.controller_config, run.controller_state, run.controller_errors],
    "The configuration of the controller process (`testbed.controller.settings`), what it leaves for a "
    "controller that takes over (`testbed.controller.liveness`), and its standard error.",
)
ROUTERS_PROCESS = RunFile(
    lambda run: [run.routers_specs, run.routers_log, run.routers_errors],
    "The parent process of the routers (`router.runtime.parent`): the routers that it starts, a line for "
    "each that is ready or has ended, and its standard error.",
)
ROUTERS = RunFile(
    lambda run: [run.router_log("<n>"), run.router_counters("<n>")],
    "The log of the router of node n, with its standard error, and the counters that it leaves.",
)
SPARK = RunFile(
    lambda run: [run.spark_log, run.live_errors, run.relay_errors],
    "The log of Spark, and the standard error of the live view, and of the relays between machines.",
)
RECORDINGS = RunFile(
    lambda run: [run.recording("<n>")],
    "The events that the router of node n was given, and its answers; `router.recording.file` reads and "
    "writes it.",
)
TABLES = RunFile(
    lambda run: [run.tables],
    "The tables of the accounting, a folder of Parquet files each. docs/reference/tables.md describes them.",
)
TABLES_AT_WORK = RunFile(
    lambda run: [run.tables_new, run.tables_former, run.tables_removed],
    "Folders of an accounting at work (`captures.tables.store`): tables being written, tables replaced "
    "until the summary is written, tables being deleted.",
)
REPORT = RunFile(
    lambda run: [run.report, run.figures_folder],
    "The report for people, and its figures as SVG and PNG; as PDF in a folder of its own, by "
    "`cbcb report --style`.",
)
_PLACES = [Path(each.name) for each in vars(RunLayout).values() if isinstance(each, At)]


def _place(file: RunFile) -> int:
    path = file.path(RunLayout(Path()))
    return _PLACES.index(path if path in _PLACES else path.parent)


#: Every file of a run folder, in the order of `RunLayout`.
FILES = sorted(
    {
        each
        for module in iter_modules(captures.rundir.__path__)
        for each in vars(import_module(f"captures.rundir.{module.name}")).values()
        if isinstance(each, RunFile)
    },
    key=_place,
)
#: More records of a file are in one table, with their fields in another.
_FEW = 4
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
    for names, record in records:
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
