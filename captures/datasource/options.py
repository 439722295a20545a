"""The options of the data sources, with bounds on the rows to read; their checks, and errors of users."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

from captures.frames.columns import TYPES
from captures.frames.index import DEFAULT_PART_BYTES
from captures.frames.parts import FilePart
from captures.pcap import PcapError
from captures.pcap.listing import FileEntry, list_captures
from captures.rundir.files import RunFolderError

#: Option -> meaning; Spark ignores the case of names. docs/reference/pcap-source.md explains them.
OPTIONS = {
    "path": "file, directory, glob or URI; `load` sets it",
    "paths": "JSON list of paths; `load` sets it",
    "view": "the table to read",
    "binSeconds": "width of the time bins of view `traffic`; default 1",
    "columns": "names of columns, separated by commas; default: all",
    "mode": "treatment of packets that do not decode and of damaged files: `PERMISSIVE` (the default; see "
    "below), `DROPMALFORMED` (no rows for these packets) or `FAILFAST` (an error)",
    "ignoreCorruptFiles": "whether to skip files that are no captures or cannot be read: `true` or `false`",
    "ignoreMissingFiles": "whether to skip paths and files that do not exist: `true` or `false`",
    "modifiedAfter": "only files changed after a time, such as `2026-01-31T12:00:00` (UTC) or `...+01:00`",
    "modifiedBefore": "only files changed before a time",
    "maxFilesPerTrigger": "streams: greatest number of files with new packets in a batch",
    "maxBytesPerTrigger": "streams: approximate greatest size of a batch in bytes, also as `10m` or `1g`",
    "fromNs": "only packets captured at this time or later, in ns since 1970 UTC",
    "untilNs": "only packets captured before this time, in ns since 1970 UTC",
    "types": "only frames of these CBCB types, encoded or not, separated by commas (`frames`, `traffic`)",
    "links": "only captures of these links of a run, separated by commas (format `cbcb`)",
    "partitionBytes": "approximate number of bytes that one task reads",
    "partitions": "least number of tasks, if there is enough to read",
    "pathGlobFilter": "glob for the names of files in directories",
    "recursiveFileLookup": "whether to read sub-directories, too: `true` or `false`",
}
_LEAST_PART_BYTES = 1024 * 1024
PERMISSIVE, DROPMALFORMED, FAILFAST = MODES = ("PERMISSIVE", "DROPMALFORMED", "FAILFAST")
_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


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


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of the packets to read.

    Attributes:
        first_ns, last_ns: only packets captured in [first_ns, last_ns] (None: no bound).
        types: only CBCB frames of these types (None: any packet).
        links: only captures of the links with these indices (None: any capture).
    """

    first_ns: int | None = None
    last_ns: int | None = None
    types: frozenset[str] | None = None
    links: frozenset[int] | None = None

    def needs_part(self, part: FilePart) -> bool:
        """Whether a part can hold a packet within the bounds, as far as its index tells."""
        if part.first_ns is not None and part.last_ns is not None:
            if self.first_ns is not None and part.last_ns < self.first_ns:
                return False
            if self.last_ns is not None and part.first_ns > self.last_ns:
                return False
        if self.types is not None and part.types is not None:
            return not self.types.isdisjoint(TYPES.get(number) for number in part.types)
        return True


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The checked options of one use of a data source.

    Attributes:
        partition_bytes: approximate number of bytes that one task reads; None: chosen by the amount of data.
        mode: one of `MODES`.
        bounds: limits of the rows to read.
        modified_ns: only files changed between these times, ns since 1970 UTC (None: no bound).
        most_files, most_bytes: limits of a batch of a stream; None: no limit.
        may_be_missing: the paths of `paths` that need not exist yet.
    """

    paths: tuple[str, ...]
    view: str
    columns: tuple[str, ...]
    skip_bad_files: bool
    skip_missing_files: bool
    bin_ns: int
    partition_bytes: int | None
    partitions: int
    name_glob: str | None
    recursive: bool
    mode: str = PERMISSIVE
    bounds: Bounds = field(default_factory=Bounds)
    may_be_missing: frozenset[str] = frozenset()
    modified_ns: tuple[int | None, int | None] = (None, None)
    most_files: int | None = None
    most_bytes: int | None = None

    def files(self) -> list[FileEntry]:
        """The files that exist at the time of the call.

        Raises:
            FileNotFoundError: a path does not exist, or a glob matches nothing, and missing files are not
                skipped.
        """
        paths = [path for path in self.paths if path not in self.may_be_missing or Path(path).exists()]
        entries = list_captures(paths, self.name_glob, self.recursive, self.skip_missing_files)
        return [entry for entry in entries if self._is_of_time(entry)]

    def _is_of_time(self, entry: FileEntry) -> bool:
        after, before = self.modified_ns
        if entry.modified_ns is None:
            return True
        return (after is None or entry.modified_ns > after) and (before is None or entry.modified_ns < before)

    def part_bytes(self, total: int) -> int:
        """The approximate number of bytes that one task should read of `total` bytes."""
        if self.partition_bytes is not None:
            return self.partition_bytes
        return min(DEFAULT_PART_BYTES, max(_LEAST_PART_BYTES, total // self.partitions))


def read_options(source: str, given: Mapping[str, str], views: Mapping[str, Iterable[str]]) -> ReadOptions:
    """Checks the options of a data source.

    Args:
        source: name of the format, for messages.
        views: view -> its columns; the first view is the default.

    Raises:
        OptionError: an option is unknown, missing or malformed.
    """
    options = {key.lower(): value for key, value in given.items()}
    known = {name.lower() for name in OPTIONS}
    for key in options:
        if key not in known:
            raise OptionError(f"{source}: unknown option {key}; expected one of {', '.join(OPTIONS)}")

    def one_of(name: str, choices: Sequence[str]) -> str:
        value = options.get(name.lower(), choices[0])
        if value not in choices:
            raise OptionError(f"{source}: option {name}: {value!r}; expected {' or '.join(choices)}")
        return value

    def positive(name: str) -> int | None:
        value = options.get(name.lower())
        if value is None:
            return None
        if not value.isdecimal() or int(value) == 0:
            raise OptionError(f"{source}: option {name}: {value!r}; expected a whole number above 0")
        return int(value)

    def truth(name: str) -> bool:
        value = options.get(name.lower(), "false")
        if value.lower() not in ("true", "false"):
            raise OptionError(f"{source}: option {name}: {value!r}; expected true or false")
        return value.lower() == "true"

    def size(name: str) -> int | None:
        value = options.get(name.lower())
        if value is None:
            return None
        found = re.fullmatch(r"([0-9]+)([kmgt]?)b?", value.strip().lower())
        if found is None or int(found[1]) == 0:
            raise OptionError(f"{source}: option {name}: {value!r}; expected a size above 0, such as 10m")
        return int(found[1]) * _UNITS[found[2]]

    view = one_of("view", list(views))
    mode = options.get("mode", PERMISSIVE).upper()
    if mode not in MODES:
        raise OptionError(f"{source}: option mode: {options['mode']!r}; expected {', '.join(MODES)}")
    if mode != PERMISSIVE and "data" not in views[view] and "attributes" not in views[view]:
        raise OptionError(
            f"{source}: option mode: view {view} has no row for each packet; expected {PERMISSIVE}"
        )
    paths = _paths(source, options)
    if not paths:
        raise OptionError(f"{source}: no path; expected load(PATH), or option path")
    return ReadOptions(
        paths=paths,
        view=view,
        columns=read_columns(source, options.get("columns"), list(views[view])),
        skip_bad_files=truth("ignoreCorruptFiles"),
        skip_missing_files=truth("ignoreMissingFiles"),
        bin_ns=_nanoseconds(source, options.get("binseconds", "1")),
        partition_bytes=positive("partitionBytes"),
        partitions=positive("partitions") or os.cpu_count() or 1,
        name_glob=options.get("pathglobfilter"),
        recursive=truth("recursiveFileLookup"),
        mode=mode,
        bounds=_bounds(source, options, view, views[view]),
        modified_ns=(_moment(source, options, "modifiedAfter"), _moment(source, options, "modifiedBefore")),
        most_files=positive("maxFilesPerTrigger"),
        most_bytes=size("maxBytesPerTrigger"),
    )


def options_table() -> str:
    lines = ["| option | meaning |", "|---|---|"]
    return "\n".join(lines + [f"| `{name}` | {meaning} |" for name, meaning in OPTIONS.items()]) + "\n"


def _bounds(source: str, options: Mapping[str, str], view: str, columns: Iterable[str]) -> Bounds:
    """The bounds that `fromNs`, `untilNs`, `types` and `links` set."""

    def given(name: str, needed: Sequence[str]) -> str | None:
        value = options.get(name.lower())
        if value is not None and not set(needed) & set(columns):
            raise OptionError(f"{source}: option {name}: view {view} has no column {needed[0]}")
        return value

    def time(name: str) -> int | None:
        value = given(name, ["time_ns", "bin_ns"])
        try:
            return None if value is None else int(value)
        except ValueError:
            message = f"{source}: option {name}: {value!r}; expected nanoseconds since 1970, a whole number"
            raise OptionError(message) from None

    first, until = time("fromNs"), time("untilNs")
    types, links = given("types", ["type"]), given("links", ["link"])
    names = indices = None
    if types is not None:
        names = frozenset(name.strip() for name in types.split(","))
        if unknown := sorted(names - set(TYPES.values())):
            known = ", ".join(dict.fromkeys(TYPES.values()))
            raise OptionError(f"{source}: option types: no type {unknown[0]!r}; expected some of {known}")
    if links is not None:
        numbers = [number.strip() for number in links.split(",")]
        if not all(number.isdecimal() for number in numbers):
            raise OptionError(f"{source}: option links: {links!r}; expected indices of links, such as 0,3")
        indices = frozenset(map(int, numbers))
    return Bounds(first, None if until is None else until - 1, names, indices)


def _moment(source: str, options: Mapping[str, str], name: str) -> int | None:
    """A time of an option in ns since 1970 UTC."""
    value = options.get(name.lower())
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        message = f"{source}: option {name}: {value!r}; expected a time such as 2026-01-31T12:00:00"
        raise OptionError(message) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 1000


def _nanoseconds(source: str, seconds: str) -> int:
    try:
        width = int(Decimal(seconds) * 1_000_000_000)
    except (ArithmeticError, ValueError):
        width = 0
    if not 0 < width < 2**63:
        raise OptionError(f"{source}: option binSeconds: {seconds!r}; expected a number of seconds above 0")
    return width


def _paths(source: str, options: Mapping[str, str]) -> tuple[str, ...]:
    paths = [options["path"]] if "path" in options else []
    if "paths" in options:
        try:
            several = json.loads(options["paths"])
        except ValueError:
            several = None
        if not isinstance(several, list) or not all(isinstance(path, str) for path in several):
            raise OptionError(f"{source}: option paths: expected a JSON list of strings")
        paths += several
    return tuple(paths)


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
