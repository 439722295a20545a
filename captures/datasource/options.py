"""The options of the data sources, with bounds on the rows to read; their checks, and errors of users."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from captures.frames.columns import TYPES
from captures.frames.parts import DEFAULT_PART_BYTES, FilePart
from captures.pcap import PcapError
from captures.pcap.listing import FileEntry, list_captures
from captures.rundir.files import RunFolderError
from router.records.forms import fields

_LEAST_PART_BYTES = 1024 * 1024
PERMISSIVE, DROPMALFORMED, FAILFAST = MODES = ("PERMISSIVE", "DROPMALFORMED", "FAILFAST")
_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_SIZE = r"(?i)^\s*0*([1-9][0-9]*)([kmgt]?)b?\s*$"
_Positive = Annotated[int, Meta(gt=0)]


#: The variable by which Spark's Python processes leave out the traceback of the exception that ends them.
_HIDE_TRACEBACK = "SPARK_HIDE_TRACEBACK"


class OptionError(ValueError):
    """An option of a data source is missing, unknown or malformed; the message names the option."""


@contextmanager
def errors_in_one_line() -> Iterator[None]:
    """In a Python process of Spark: shows errors about options and files without traceback.

    The process ends with the exception, so the setting applies to that exception alone.
    """
    try:
        yield
    except (OptionError, PcapError, RunFolderError, OSError):
        main = sys.modules["__main__"].__spec__
        if main is not None and main.name.startswith(("pyspark.", "captures.spark.")):
            os.environ[_HIDE_TRACEBACK] = "1"
        raise


class ReadOptions(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The checked options of one use of a data source; each has a meaning, for docs/reference/pcap-source.md.

    Attributes:
        paths: also has `path`.
        may_be_missing: the paths of `paths` that need not exist yet; no option.
    """

    path: Annotated[str | None, "file, directory, glob or URI; `load` sets it"] = None
    paths: Annotated[tuple[str, ...], "JSON list of paths; `load` sets it"] = ()
    view: Annotated[str, "the table to read"]
    bin_seconds: Annotated[
        float, "width of the time bins of view `traffic`; default 1", Meta(ge=1e-9, lt=9e9)
    ] = 1
    columns: Annotated[tuple[str, ...], "names of columns, separated by commas; default: all"]
    mode: Annotated[
        str,
        "treatment of packets that do not decode and of damaged files: `PERMISSIVE` (the default; see "
        "below), `DROPMALFORMED` (no rows for these packets) or `FAILFAST` (an error)",
    ] = PERMISSIVE
    ignore_corrupt_files: Annotated[
        bool, "whether to skip files that are no captures or cannot be read: `true` or `false`"
    ] = False
    ignore_missing_files: Annotated[
        bool, "whether to skip paths and files that do not exist: `true` or `false`"
    ] = False
    modified_after: Annotated[
        datetime | None, "only files changed after a time, such as `2026-01-31T12:00:00` (UTC) or `...+01:00`"
    ] = None
    modified_before: Annotated[datetime | None, "only files changed before a time"] = None
    max_files_per_trigger: Annotated[
        _Positive | None, "streams: greatest number of files with new packets in a batch"
    ] = None
    max_bytes_per_trigger: Annotated[
        Annotated[str, Meta(pattern=_SIZE)] | None,
        "streams: approximate greatest size of a batch in bytes, also as `10m` or `1g`",
    ] = None
    from_ns: Annotated[int | None, "only packets captured at this time or later, in ns since 1970 UTC"] = None
    until_ns: Annotated[int | None, "only packets captured before this time, in ns since 1970 UTC"] = None
    types: Annotated[
        frozenset[str] | None,
        "only frames of these CBCB types, encoded or not, separated by commas (`frames`, `traffic`)",
    ] = None
    links: Annotated[
        frozenset[int] | None, "only captures of these links of a run, separated by commas (format `cbcb`)"
    ] = None
    partition_bytes: Annotated[_Positive | None, "approximate number of bytes that one task reads"] = None
    partitions: Annotated[_Positive, "least number of tasks, if there is enough to read"] = msgspec.field(
        default_factory=lambda: os.cpu_count() or 1
    )
    path_glob_filter: Annotated[str | None, "glob for the names of files in directories"] = None
    recursive_file_lookup: Annotated[bool, "whether to read sub-directories, too: `true` or `false`"] = False
    may_be_missing: frozenset[str] = frozenset()

    @property
    def bin_ns(self) -> int:
        return round(self.bin_seconds * 1e9)

    @property
    def most_bytes(self) -> int | None:
        """The limit of a batch of a stream; None: no limit."""
        size = re.match(_SIZE, self.max_bytes_per_trigger or "")
        return None if size is None else int(size[1]) * _UNITS[size[2].lower()]

    def needs(self, part: FilePart) -> bool:
        """Whether a part can hold a packet within the bounds, as far as a walk tells."""
        if self.from_ns is not None and part.last_ns is not None and part.last_ns < self.from_ns:
            return False
        if self.until_ns is not None and part.first_ns is not None and part.first_ns >= self.until_ns:
            return False
        if self.types is not None and part.types is not None:
            return not self.types.isdisjoint(TYPES.get(number) for number in part.types)
        return True

    def files(self) -> list[FileEntry]:
        """The files that exist at the time of the call.

        Raises:
            FileNotFoundError: a path does not exist, or a glob matches nothing, and missing files are not
                skipped.
        """
        paths = [path for path in self.paths if path not in self.may_be_missing or Path(path).exists()]
        entries = list_captures(
            paths, self.path_glob_filter, self.recursive_file_lookup, self.ignore_missing_files
        )
        return [entry for entry in entries if self._is_of_time(entry)]

    def _is_of_time(self, entry: FileEntry) -> bool:
        if entry.modified_ns is None:
            return True
        at = datetime.fromtimestamp(entry.modified_ns / 1e9, UTC)
        after, before = (
            each and each.replace(tzinfo=each.tzinfo or UTC)
            for each in (self.modified_after, self.modified_before)
        )
        return (after is None or at > after) and (before is None or at < before)

    def part_bytes(self, total: int) -> int:
        """The approximate number of bytes that one task should read of `total` bytes."""
        if self.partition_bytes is not None:
            return self.partition_bytes
        return min(DEFAULT_PART_BYTES, max(_LEAST_PART_BYTES, total // self.partitions))


#: Option -> meaning.
OPTIONS = {
    name: field.meaning
    for name, field in zip(ReadOptions.__struct_encode_fields__, fields(ReadOptions), strict=True)
    if field.meaning
}
#: Option -> columns, of which the view must have one.
_NEEDED = {
    "fromNs": ("time_ns", "bin_ns"),
    "untilNs": ("time_ns", "bin_ns"),
    "types": ("type",),
    "links": ("link",),
}
_LISTS = ("columns", "types", "links")


def read_options(source: str, given: Mapping[str, str], views: Mapping[str, Iterable[str]]) -> ReadOptions:
    """Checks the options of a data source; Spark ignores the case of their names.

    Args:
        source: name of the format, for messages.
        views: view -> its columns; the first view is the default.

    Raises:
        OptionError: an option is unknown, missing or malformed.
    """
    known = {name.lower(): name for name in OPTIONS}
    if unknown := [name for name in given if name.lower() not in known]:
        raise OptionError(
            f"{source}: unknown option {unknown[0].lower()}; expected one of {', '.join(OPTIONS)}"
        )
    options = {known[name.lower()]: value for name, value in given.items()}

    def refused(name: str, expected: str) -> OptionError:
        return OptionError(f"{source}: option {name}: {options[name]!r}; {expected}")

    view, mode = options.get("view", next(iter(views))), options.get("mode", PERMISSIVE).upper()
    if view not in views:
        raise refused("view", f"expected {' or '.join(views)}")
    columns = list(views[view])
    if mode not in MODES:
        raise refused("mode", f"expected {', '.join(MODES)}")
    if mode != PERMISSIVE and "data" not in columns and "attributes" not in columns:
        raise OptionError(
            f"{source}: option mode: view {view} has no row for each packet; expected {PERMISSIVE}"
        )
    for name in options.keys() & _NEEDED.keys():
        if not {*_NEEDED[name]} & {*columns}:
            raise OptionError(f"{source}: option {name}: view {view} has no column {_NEEDED[name][0]}")
    parsed: dict[str, object] = {**options, "view": view, "mode": mode}
    parsed |= {
        name: [each.strip() for each in options[name].split(",")] for name in _LISTS if name in options
    }
    parsed["columns"] = read_columns(source, options.get("columns"), columns)
    try:
        paths = msgspec.json.decode(options.get("paths", "[]"), type=list[str])
    except msgspec.DecodeError:
        raise OptionError(f"{source}: option paths: expected a JSON list of strings") from None
    parsed["paths"] = [options["path"], *paths] if "path" in options else paths
    if not parsed["paths"]:
        raise OptionError(f"{source}: no path; expected load(PATH), or option path")
    try:
        checked = msgspec.convert(parsed, ReadOptions, strict=False)
    except msgspec.ValidationError as error:
        words, _, place = str(error).partition(" - at `$.")
        raise refused(re.split(r"\W", place)[0], words[0].lower() + words[1:]) from None
    if unknown := sorted((checked.types or frozenset()) - {*TYPES.values()}):
        raise refused(
            "types", f"no type {unknown[0]!r}; expected some of {', '.join(dict.fromkeys(TYPES.values()))}"
        )
    return checked


def read_columns(source: str, value: str | None, known: Sequence[str]) -> tuple[str, ...]:
    """Checks the option `columns`; None names all.

    Raises:
        OptionError: a name is not of `known`, or is there twice.
    """
    if value is None:
        return tuple(known)
    names = [name.strip() for name in value.split(",")]
    for name in names:
        if name not in known:
            raise OptionError(
                f"{source}: option columns: no column {name!r}; expected some of {', '.join(known)}"
            )
    if len(set(names)) != len(names):
        raise OptionError(f"{source}: option columns: {value!r} names a column twice")
    return tuple(names)
