"""`cbcb clean`: removes the remains of dead runs and of the Spark sessions of dead processes."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace

from captures.spark.folder import remove_abandoned
from testbed.errors import MachineError, RunError
from testbed.network.cleanup import clean_dead_runs
from testbed.network.state import live_runs
from testbed.terminal.printable import put


def add_arguments(_parser: ArgumentParser) -> None:
    """Takes none."""


def main(_arguments: Namespace) -> int:
    """Prints what was removed and which live runs were left alone.

    Returns 0.
    """
    if os.geteuid() != 0:
        raise MachineError("rights: user id is not 0; run it as root: `sudo ./run.sh clean`")
    cleaned = clean_dead_runs()
    folders, processes = remove_abandoned()
    if cleaned.tags:
        put(f"removed what {len(cleaned.tags)} dead runs left ({cleaned.processes} processes)")
    if folders:
        put(f"removed {folders} temporary folders of Spark's ({processes} processes)")
    if not cleaned.tags and not folders and not cleaned.failures:
        put("nothing to clean")
    for state in live_runs():
        put(f"left alone: run {state.tag}, alive (process {state.owner.pid}, {state.run_dir})")
    if cleaned.failures:
        raise RunError("not everything could be removed: " + "; ".join(cleaned.failures))
    return 0
