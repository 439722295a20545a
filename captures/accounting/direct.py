"""The accounting of one run on DuckDB, in this process.

A sweep accounts for thousands of small runs inside tasks of Spark, where no session of Spark can start, and
where planning Spark's queries would take longer than the simulation. It does not run tshark: a sweep checks
the protocol, and the reader of captures has been compared with tshark elsewhere.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

from captures.accounting.conclusion import ANSWERS, conclusion, judged
from captures.accounting.engines import DuckDB
from captures.accounting.inputs import Inputs
from captures.accounting.steps import KNOWN, Sources, Steps, reads_of
from captures.accounting.texts import code_of, in_order, reads, texts
from captures.datasource.opening import frames_of
from captures.frames.columns import COLUMNS
from captures.rundir import RunLayout
from captures.tables import TABLES
from captures.tables.store import FRAMES

#: The columns of frames that the texts of the summary name.
_COLUMNS = tuple(
    name
    for name in COLUMNS
    if any(
        FRAMES in reads(text) and re.search(rf"\b{name}\b", code_of(text))
        for each in in_order(ANSWERS, reads_of)
        if (text := texts().get(each))
    )
)


class Direct:
    """The accounting of one run in memory.

    Args:
        run_dir: a run folder with the oracle's answers.
        whole: whether the table of frames has all columns, as `write_tables` needs, or those of which the
            summary is made.
        threads: of DuckDB; None: as many as the machine has processors.
        spill: folder for what does not fit into memory; None: the system's for temporary files.

    Raises:
        RunFolderError: a file of the run folder is missing or malformed.
        PcapError: a capture file is no pcap file.
    """

    def __init__(
        self, run_dir: Path, *, whole: bool = False, threads: int | None = 1, spill: Path | None = None
    ) -> None:
        self.inputs = Inputs(RunLayout(run_dir))
        captures = {str(run_dir / each.file): each.identity for each in self.inputs.captures}
        captured = frames_of(captures, tuple(COLUMNS) if whole else _COLUMNS)
        self._engine = DuckDB(captured, threads, spill)
        self._steps = Steps(self._engine, Sources(self.inputs))
        try:
            with warnings.catch_warnings():
                # The summary has the captures that end inside a record.
                warnings.simplefilter("ignore", UserWarning)
                self._steps.make((FRAMES,))
        except BaseException:
            self._engine.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Frees the memory of the database, and removes its temporary folder."""
        self._engine.close()

    def summary(self) -> dict[str, Any]:
        """Returns the keys of summary.json that `captures.accounting.account.account` returns.

        `reconciliation` has no `tshark`, and `accounting_s` is left to the caller.
        """
        return dict(self._summary)

    def verdict(self, expected: Collection[str] = ()) -> tuple[str, list[str]]:
        """Returns the verdict on the run, and its reasons.

        Args:
            expected: keys of the summary that may be above 0 (`captures.accounting.verdict.verdict`).
        """
        return judged(self.inputs, self._summary, expected)

    @cached_property
    def _summary(self) -> dict[str, Any]:
        answers: dict[str, list[dict[str, Any]]] = {}
        self._steps.make(ANSWERS, lambda name: answers.update({name: self._steps.rows(name)}))
        return conclusion("duckdb", self.inputs, answers, "the engine duckdb does not run it")

    def write_tables(self, folder: Path) -> None:
        """Writes the tables of the catalogue; the accounting must have been made with `whole`."""
        self._steps.make(tuple(TABLES), lambda name: self._steps.export(name, folder))

    def table(self, name: str, **values: str) -> pa.Table:
        """Returns a table or step.

        Args:
            values: other values than those of the run, for names in its text (`captures.accounting.steps`).
        """
        return self.sql(
            self._steps.written_out(texts()[name], **values) if values else f"select * from {name}"
        )

    def sql(self, query: str) -> pa.Table:
        """Returns the answer to a query over tables and steps (`captures.accounting.texts`), and inputs.

        Raises:
            captures.tables.query.DatabaseError: the query is wrong, or names a column of frames that the
                summary does not need, and the accounting was made without `whole`.
        """
        self._steps.make(KNOWN & {*re.findall(r"\w+", query.lower())})
        return self._engine.database.sql(query).to_arrow_table()


def flat(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the numbers and texts of a summary by dotted keys, such as `delivery_delay.median_s`.

    Lists are left out, but for their lengths under `KEY.count`; of `reconciliation`, the numbers of
    differences.
    """
    found: dict[str, Any] = {}
    for key, value in summary.items():
        if isinstance(value, Mapping):
            found |= {f"{key}.{inner}": each for inner, each in flat(value).items()}
        elif isinstance(value, list):
            found[f"{key}.count"] = len(value)
        else:
            found[key] = value
    return found
