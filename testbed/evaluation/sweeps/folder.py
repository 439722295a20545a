"""The folder of a sweep: a file for each run that has ended, and the tables of all runs.

`rows/IDENTITY.json` is written, in one step, when the run has ended; a sweep that is continued reads it
again. `runs.parquet` has a row for each run in the order of the sweep: its number, the parameters, the seed,
`error` (null: none), the code that made the run (`commit`, `dirty`, `code`) and every key of the summary;
equal sweeps give equal bytes. `costs.parquet` has the seconds and the memory, which no two runs share.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from captures.rundir.inputs import Source
from router.privacy import holds_keys
from router.records.json_file import written_whole
from testbed.evaluation.sweeps import KEEP, REFUSE
from testbed.evaluation.sweeps.job import Row
from testbed.evaluation.sweeps.spec import Job
from testbed.machine.versions import states_of
from testbed.results.folders import SWEEP_TABLE
from testbed.support.errors import InputError

RUNS, COSTS, POINTS = SWEEP_TABLE, "costs.parquet", "points.parquet"
#: Folder of the file of the sweep, and of the files that it names.
SPEC = "spec"
#: Columns of `runs.parquet` before the keys of the summary, beside the parameters.
RUN, SEED, ERROR = "run", "seed", "error"
COMMIT, DIRTY, CODE = "commit", "dirty", "code"


class SweepFolder:
    """The folder of a sweep, made if it does not exist."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._rows = path / "rows"
        try:
            self._rows.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot make the folder {self._rows}: {error.strerror}") from error

    def rows(self, jobs: Sequence[Job]) -> dict[str, Row]:
        """Returns the rows of the runs among `jobs` that have ended, by identity."""
        found = {}
        for job in jobs:
            path = self._place(job.identity)
            if path.is_file():
                try:
                    found[job.identity] = msgspec.json.decode(path.read_bytes(), type=Row)
                except ValueError as error:
                    raise InputError(
                        f"{path}: no row of a run ({error}); remove it to repeat the run"
                    ) from error
        return found

    def ended(self, jobs: Sequence[Job], other_code: str, *, retry: bool = False) -> dict[str, Row]:
        """Returns the rows of the runs among `jobs` that are not to be run a second time, by identity.

        Args:
            other_code: one of `OTHER_CODE`, for runs that other code has made.
            retry: failed runs are to be run a second time.

        Raises:
            InputError: runs were made by other code, which `other_code` refuses.
        """
        rows = {key: row for key, row in self.rows(jobs).items() if not retry or row["error"] is None}
        code = {job.identity: job.source.get("code") for job in jobs}
        other = [key for key, row in rows.items() if row["source"].get("code") != code[key]]
        if other and other_code == REFUSE:
            states = ", ".join(states_of(rows[key]["source"] for key in other))
            raise InputError(
                f"{self.path}: {len(other)} of {len(code)} runs were made by other code ({states}); "
                f"--other-code repeat runs them a second time, --other-code keep takes their numbers"
            )
        return {key: row for key, row in rows.items() if other_code == KEEP or key not in other}

    def keep(self, row: Row) -> None:
        with written_whole(self._place(row["identity"]), durable=False) as file:
            file.write(json.dumps(row).encode())

    def write(self, table: pa.Table, name: str) -> None:
        with written_whole(self.path / name, durable=False) as file:
            pq.write_table(table, file)

    def write_tables(self, jobs: Sequence[Job], rows: Mapping[str, Row]) -> pa.Table:
        """Writes the tables of the runs that have ended, and returns `runs.parquet`."""
        ended = [(job, rows[job.identity]) for job in jobs]
        runs = _table(
            [
                {
                    RUN: job.number,
                    **job.parameters,
                    SEED: job.seed,
                    ERROR: row["error"],
                    **{key: row["source"].get(key) for key in (COMMIT, DIRTY, CODE)},
                    **row["keys"],
                }
                for job, row in ended
            ]
        )
        costs = _table([{RUN: job.number, **dict(sorted(row["costs"].items()))} for job, row in ended])
        self.write(runs, RUNS)
        self.write(costs, COSTS)
        return runs

    def keep_files(self, files: Sequence[Path], beside: Path) -> list[Path]:
        """Copies what a sweep reads into its folder, but for private keys.

        Args:
            beside: the folder of the sweep's file.

        Returns:
            What is outside `beside`, of which there is no copy.
        """
        outside = []
        for path in files:
            try:
                place = self.path / SPEC / path.resolve().relative_to(beside.resolve())
            except ValueError:
                outside.append(path)
                continue
            if not holds_keys(path) and path.resolve() != place.resolve():
                place.parent.mkdir(parents=True, exist_ok=True)
                with written_whole(place, durable=False) as file:
                    file.write(path.read_bytes())
        return outside

    def _place(self, identity: str) -> Path:
        return self._rows / f"{identity}.json"


def read_runs(path: Path) -> pa.Table:
    """Returns the table of a sweep: `path` is its folder or a Parquet file.

    Raises:
        InputError: there is none.
    """
    file = path / RUNS if path.is_dir() else path
    try:
        return pq.read_table(file)
    except (OSError, pa.ArrowInvalid) as error:
        raise InputError(f"{file}: no table of a sweep: {error}") from error


def sources_of(runs: pa.Table) -> list[Source]:
    """Returns the code of each run of a sweep that has results."""
    return [
        Source(version="", commit=row[COMMIT], dirty=row[DIRTY], code=row[CODE])
        for row in (runs.to_pylist() if CODE in runs.column_names else ())
        if row.get(ERROR) is None
    ]


_TYPES = {int: pa.int64(), float: pa.float64(), bool: pa.bool_()}


def _table(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Returns a table with the columns of all rows, in the order in which they first appear.

    A column of integers and numbers holds numbers; one of anything else and texts holds texts.
    """
    columns = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        values = [row.get(name) for row in rows]
        kinds = {type(value) for value in values if value is not None}
        kind = next(iter(kinds), str) if len(kinds) < 2 else float if kinds == {int, float} else str
        if len(kinds) > 1:
            values = [None if value is None else kind(value) for value in values]
        columns[name] = pa.array(values, _TYPES.get(kind, pa.string()))
    return pa.table(columns)
