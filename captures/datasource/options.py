"""The options of the data sources, and their checks."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

from pyspark.sql.datasource import In, IsNotNull

from captures.datasource.bounds import Bounds
from captures.frames.index import DEFAULT_PART_BYTES
from captures.pcap.listing import FileEntry, list_captures
from router.wire.header import TYPE_NAMES

#: Option -> meaning; Spark ignores the case of names. docs/pcap-source.md explains them.
OPTIONS = {
    "path": "file, directory, glob or URI; `load` sets it",
    "paths": "JSON list of paths; `load` sets it",
    "view": "the table to read",
    "binSeconds": "width of the time bins of view `traffic`; default 1",
    "columns": "names of columns, separated by commas; default: all",
    "onError": "treatment of files that are no captures or cannot be read: `fail` or `skip`",
    "fromNs": "only packets captured at this time or later, in ns since 1970 UTC",
    "untilNs": "only packets captured before this time, in ns since 1970 UTC",
    "types": "only frames of these CBCB types, separated by commas (views `frames`, `traffic`)",
    "links": "only captures of these links of a run, separated by commas (format `cbcb`)",
    "partitionBytes": "approximate number of bytes that one task reads",
    "partitions": "least number of tasks, if there is enough to read",
    "pathGlobFilter": "glob for the names of files in directories",
    "recursiveFileLookup": "whether to read sub-directories, too: `true` or `false`",
}
_LEAST_PART_BYTES = 1024 * 1024


class OptionError(ValueError):
    """An option of a data source is missing, unknown or malformed; the message names the option."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The checked options of one use of a data source.

    Attributes:
        partition_bytes: approximate number of bytes that one task reads; None: chosen by the amount of data.
        bounds: limits of the rows to read.
        may_be_missing: the paths of `paths` that need not exist yet.
    """

    paths: tuple[str, ...]
    view: str
    columns: tuple[str, ...]
    skip_bad_files: bool
    bin_ns: int
    partition_bytes: int | None
    partitions: int
    name_glob: str | None
    recursive: bool
    bounds: Bounds = field(default_factory=Bounds)
    may_be_missing: frozenset[str] = frozenset()

    def files(self) -> list[FileEntry]:
        """The files that exist at the time of the call.

        Raises:
            FileNotFoundError: a path does not exist, or a glob matches nothing.
        """
        paths = [path for path in self.paths if path not in self.may_be_missing or Path(path).exists()]
        return list_captures(paths, self.name_glob, self.recursive)

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

    view = one_of("view", list(views))
    paths = _paths(source, options)
    if not paths:
        raise OptionError(f"{source}: no path; expected load(PATH), or option path")
    return ReadOptions(
        paths=paths,
        view=view,
        columns=_columns(source, options.get("columns"), list(views[view])),
        skip_bad_files=one_of("onError", ["fail", "skip"]) == "skip",
        bin_ns=_nanoseconds(source, options.get("binseconds", "1")),
        partition_bytes=positive("partitionBytes"),
        partitions=positive("partitions") or os.cpu_count() or 1,
        name_glob=options.get("pathglobfilter"),
        recursive=one_of("recursiveFileLookup", ["false", "true"]) == "true",
        bounds=_bounds(source, options, view, views[view]),
    )


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
    bounds = Bounds(first, None if until is None else until - 1)
    if types is not None:
        names = frozenset(name.strip() for name in types.split(","))
        if unknown := sorted(names - set(TYPE_NAMES.values())):
            known = ", ".join(TYPE_NAMES.values())
            raise OptionError(f"{source}: option types: no type {unknown[0]!r}; expected some of {known}")
        bounds = bounds.both(Bounds(types=names))
    if links is not None:
        numbers = [number.strip() for number in links.split(",")]
        if not all(number.isdecimal() for number in numbers):
            raise OptionError(f"{source}: option links: {links!r}; expected indices of links, such as 0,3")
        of_link = (IsNotNull(("link",)), In(("link",), tuple(map(int, numbers))))
        bounds = bounds.both(Bounds(of_file=of_link))
    return bounds


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


def _columns(source: str, value: str | None, known: Sequence[str]) -> tuple[str, ...]:
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
