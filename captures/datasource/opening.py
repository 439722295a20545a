"""Captures opened by the options of a format, with Spark or without."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from captures.datasource.options import OptionError, ReadOptions, read_options
from captures.datasource.views import CBCB_VIEWS, PCAP_VIEWS, View, view_of
from captures.frames.identity import CaptureIdentity
from captures.pcap.listing import is_capture_name, local_matches
from captures.rundir.capture_list import capture_paths
from captures.rundir.layout import RunLayout


def options_and_view(source: str, given: Mapping[str, str]) -> tuple[ReadOptions, View]:
    """The checked options of a format, and the table that they describe.

    Args:
        source: `pcap`, or `cbcb`, whose paths may be those of run folders.

    Raises:
        OptionError: an option is unknown, missing or malformed.
        RunFolderError: the list of captures of a run, or its topology, is missing or malformed.
    """
    options = read_options(source, given, PCAP_VIEWS if source == "pcap" else CBCB_VIEWS)
    view = view_of(options)
    if source == "pcap":
        return options, view
    paths: list[str] = []
    identities: dict[str, CaptureIdentity] = {}
    for path in options.paths:
        for run in (runs := run_folders(path)):
            paths.append(str(run.captures_folder))
            identities |= capture_paths(run)
        if not runs:
            paths.append(path)
    # The folder of a run's captures need not exist yet.
    of_runs = frozenset(paths) - frozenset(options.paths)
    options = replace(options, paths=tuple(paths), may_be_missing=of_runs)
    return options, replace(view, captures=identities)


def run_folders(path: str) -> list[RunLayout]:
    """The run folders that a path names: the path itself, or all that a glob matches.

    May be none.

    Raises:
        OptionError: a glob matches run folders, and also captures or folders outside of them.
    """
    matches = local_matches(path)
    runs = {match for match, folder in matches if folder and RunLayout(Path(match)).topology.is_file()}
    above = {str(parent) for run in runs for parent in Path(run).parents}
    for match, folder in matches if runs else []:
        inside = any(str(parent) in runs for parent in Path(match).parents)
        read = folder or is_capture_name(Path(match).name, None)
        if match not in runs | above and not inside and read:
            raise OptionError(f"cbcb: {path}: matches run folders and also {match}, which is no run folder")
    return [RunLayout(Path(run)) for run in sorted(runs)]
