"""Copies of run folders in which one piece of evidence is changed, and the judgement on them."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from captures.accounting.direct import Direct
from captures.accounting.verdict import FAILS, HOLDS
from captures.pcap import PcapError
from captures.pcap.reader import PcapReader
from captures.rundir import RunLayout
from captures.rundir.files import RunFolderError
from router.wire.header import ETHERNET_HEADER_LENGTH, HEADER_LENGTH, decode_header
from testbed.experiments.config.load import load_experiment
from testbed.results.conclude import judge_run, of_the_run
from testbed.results.recordings import recorded_nodes, replay_run
from testbed.support.errors import InputError
from tests.support.capture_files import pcap

#: In place of a verdict: the folder is not accounted for; the reason is the text of the error.
REFUSED = "refused"
#: Time in ns since 1970 UTC and bytes of a captured frame.
Captured = tuple[int, bytes]
#: Types of the frames that carry what applications send.
CONTENT = ("MSG", "XMSG", "PUB")
Records = list[dict[str, Any]]
Change = Callable[[RunLayout], None]
#: Changes a record; its result is not used.
OfRecord = Callable[[dict[str, Any]], object]


def copy_of(run_dir: Path, folder: Path) -> RunLayout:
    """Copies a run folder without its results, as hard links until `put` replaces a file."""
    run = RunLayout(run_dir)
    results = {
        path.name
        for path in (run.oracle, run.subscriptions, run.attention, run.tables, run.summary, run.report)
    } | {run.figures_folder.name}
    shutil.copytree(run_dir, folder, copy_function=os.link, ignore=lambda _, names: results & set(names))
    return RunLayout(folder)


def judged(run: RunLayout) -> tuple[str, list[str]]:
    """The verdict of the oracle and the accounting on a run, and its reasons."""
    try:
        experiment = load_experiment(run.experiment)
        of_the_run(experiment, run)
        judge_run(run, experiment)
        with Direct(run.path) as accounting:
            return accounting.verdict()
    except (RunFolderError, InputError, PcapError) as error:
        return REFUSED, [str(error)]


def replayed(run: RunLayout) -> tuple[str, list[str]]:
    """Whether a replay of the recordings equals the live run, and the differences."""
    try:
        found = [
            f"r{verdict.node}: {text}"
            for verdict in replay_run(run.path, recorded_nodes(run.path))
            for text in verdict.differences
        ]
    except (RunFolderError, InputError) as error:
        return REFUSED, [str(error)]
    return (FAILS, found) if found else (HOLDS, [])


def put(path: Path, content: bytes | str) -> None:
    """Replaces a file; the other names of a hard link keep their content."""
    path.unlink(missing_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


def paths(run: RunLayout, pattern: str) -> list[Path]:
    """The files of a pattern, of which there is at least one, in order."""
    found = sorted(run.path.glob(pattern))
    assert found, f"{run.path}: no {pattern}"
    return found


def without(pattern: str, *, every: bool = True) -> Change:
    """Removes the files of a pattern, or the first of them."""

    def change(run: RunLayout) -> None:
        for path in paths(run, pattern)[: None if every else 1]:
            path.unlink()

    return change


def truncated(pattern: str, by: int) -> Change:
    """Cuts bytes from the end of the longest file of a pattern."""

    def change(run: RunLayout) -> None:
        path = max(paths(run, pattern), key=lambda each: (each.stat().st_size, each))
        put(path, path.read_bytes()[:-by])

    return change


def document(pattern: str, edit: Callable[[Any], object]) -> Change:
    """Changes the first JSON document of a pattern in place."""

    def change(run: RunLayout) -> None:
        path = paths(run, pattern)[0]
        content = json.loads(path.read_text())
        edit(content)
        put(path, json.dumps(content))

    return change


def _records(
    pattern: str, made: Callable[[dict[str, Any]], Records], every: bool, fields: dict[str, Any]
) -> Change:
    """Puts records in the place of the first record with fields, or of all of them in its file."""

    def change(run: RunLayout) -> None:
        for path in paths(run, pattern):
            records: Records = [json.loads(line) for line in path.read_text().splitlines()]
            found = [place for place, record in enumerate(records) if fields.items() <= record.items()]
            for place in reversed(found if every else found[:1]):
                records[place : place + 1] = made(records[place])
            if found:
                put(path, "".join(f"{json.dumps(record)}\n" for record in records))
                return
        raise AssertionError(f"{run.path}: no file of {pattern} has a record to change")

    return change


def drop(pattern: str, *, every: bool = False, **fields: Any) -> Change:
    """Removes the first record with fields, or all of them in its file."""
    return _records(pattern, lambda _: [], every, fields)


def alter(pattern: str, edit: OfRecord, *, every: bool = False, **fields: Any) -> Change:
    """Changes the first record with fields in place, or all of them in its file."""

    def edited(record: dict[str, Any]) -> Records:
        edit(record)
        return [record]

    return _records(pattern, edited, every, fields)


def add(pattern: str, make: Callable[[dict[str, Any]], dict[str, Any]], **fields: Any) -> Change:
    """Adds a record made of the first one with fields behind it."""
    return _records(pattern, lambda record: [record, make(dict(record))], False, fields)


def frames(
    pattern: str, edit: Callable[[Sequence[Captured], int], list[Captured]], types: Sequence[str] = CONTENT
) -> Change:
    """Changes the frames of the first capture of a pattern that has a frame of some types.

    `edit` is called with the frames and the position of the first frame of these types.
    """

    def change(run: RunLayout) -> None:
        for path in paths(run, pattern):
            held = [(record.time_ns, record.data) for record in PcapReader(path).records()]
            for number, (_, data) in enumerate(held):
                if decode_header(data[ETHERNET_HEADER_LENGTH:]).type.name in types:
                    put(path, pcap(edit(held, number)))
                    return
        raise AssertionError(f"{run.path}: no frame of {types} in {pattern}")

    return change


def every_frame(pattern: str, edit: Callable[[int, bytes], Captured]) -> Change:
    """Changes all frames of the captures of a pattern."""

    def change(run: RunLayout) -> None:
        for path in paths(run, pattern):
            put(path, pcap([edit(each.time_ns, each.data) for each in PcapReader(path).records()]))

    return change


def one_frame(pattern: str, edit: Callable[[bytes], bytes], types: Sequence[str] = CONTENT) -> Change:
    """Changes the bytes of the first frame of some types."""
    return frames(
        pattern,
        lambda held, at: [
            (time_ns, edit(data) if number == at else data) for number, (time_ns, data) in enumerate(held)
        ],
        types,
    )


def flipped(data: bytes, offset: int | None = None) -> bytes:
    """A frame with the lowest bit of a byte changed.

    Args:
        offset: of the byte in the Ethernet payload; None: the last byte of the body.
    """
    if offset is None:
        offset = HEADER_LENGTH + decode_header(data[ETHERNET_HEADER_LENGTH:]).payload_length - 1
    at = ETHERNET_HEADER_LENGTH + offset
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
