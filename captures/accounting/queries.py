"""The Spark side of the accounting of one run: what is computed from what, and written under which name."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

from captures.accounting import curves, deliveries, paths, routers, traffic
from captures.accounting.inputs import Inputs
from captures.accounting.log_tables import opening_table
from captures.accounting.reconcile import Total
from captures.accounting.recovery import advertised_again, recovery
from captures.tables import store

#: Settings of Spark SQL, for a small run and for others: compiling a query, or planning it anew while it
#: runs, takes longer than it saves there.
_SETTINGS = {
    "spark.sql.codegen.wholeStage": ("false", "true"),
    "spark.sql.codegen.factoryMode": ("NO_CODEGEN", "FALLBACK"),
    "spark.sql.adaptive.enabled": ("false", "true"),
}
#: A small run's queries spend their time in planning, each on one processor.
_QUERIES_AT_ONCE = 4
#: Rows of a table that is sent to every executor rather than sorted beside another.
_MOST_SENT = 200_000
#: Between two orders to end all jobs.
_AGAIN_S = 0.3


@dataclass
class Passes:
    """One accounting.

    Attributes:
        decoded: the captured frames (`captures.source.captured_frames`).
        files: the table of `captures.accounting.inputs.FILES`.
        tables: those of `captures.accounting.inputs.written_tables`.
        folder: where the tables go.
        small: frames are kept in memory, and small tables written by this process.
    """

    spark: SparkSession
    inputs: Inputs
    decoded: DataFrame
    files: pa.Table
    tables: dict[str, pa.Table]
    folder: Path
    small: bool
    _kept: list[DataFrame] = field(default_factory=list, init=False)

    def run(self) -> tuple[list[Total], dict[str, Any]]:
        """Writes every table. Returns the totals of the captures, and keys of summary.json.

        The session is left as it was found: its settings, and what it keeps in memory.
        """
        # A task a core: Spark's own 200 take longer to start than most of these tables to make.
        tasks = 2 if self.small else max(2, self.spark.sparkContext.defaultParallelism)
        settings = {key: small if self.small else large for key, (small, large) in _SETTINGS.items()}
        settings["spark.sql.shuffle.partitions"] = str(tasks)
        before = {key: self.spark.conf.get(key, None) for key in settings}
        try:
            for key, value in settings.items():
                self.spark.conf.set(key, value)
            return self._run()
        finally:
            # Where the session is gone, nothing of it is left.
            with suppress(Py4JError, OSError):
                self._release(*self._kept)
                for key, former in before.items():
                    if former is None:
                        self.spark.conf.unset(key)
                    else:
                        self.spark.conf.set(key, former)

    def _run(self) -> tuple[list[Total], dict[str, Any]]:
        # Either way each capture is decoded once. Memory is faster for a small run, Parquet for others, whose
        # queries read the columns that they need.
        if self.small:
            self.frames = self._keep(self.decoded)
        else:
            store.write_frames(self.decoded, self.folder)
            path = str(self.folder / store.FRAMES)
            self.frames = self.spark.read.schema(self.decoded.schema).parquet(path)
        self.sent = self.spark.createDataFrame(self.inputs.log.sent)
        self.deliveries = self.spark.createDataFrame(self.inputs.log.deliveries)
        self.links = self.spark.createDataFrame(self.tables["links"])
        with ThreadPoolExecutor(max_workers=_QUERIES_AT_ONCE) as pool:
            # In this order: what others wait for goes first, so that they do not hold all threads.
            self._convergence = pool.submit(self._converged)
            self._arrivals = pool.submit(self._arrived)
            parts: list[Future[dict[str, Any]]] = [
                pool.submit(part)
                for part in (
                    *(self._of_applications, self._of_frames, self._of_routers, self._of_control),
                    *(self._of_repetitions, self._of_changes, self._of_predicates, self._of_logs),
                )
            ]
            totalling = pool.submit(self._of_traffic)
            try:
                totals = totalling.result()
                return totals, {key: value for part in parts for key, value in part.result().items()}
            except BaseException:
                # An error does not wait for the other queries.
                pool.shutdown(wait=False, cancel_futures=True)
                end_jobs(self.spark, [*parts, totalling, self._convergence, self._arrivals])
                raise

    def _keep(self, table: DataFrame) -> DataFrame:
        """Has a table kept in memory until `_release`, at the latest until the end."""
        self._kept.append(table.cache())
        return table

    def _release(self, *tables: DataFrame) -> None:
        for table in tables:
            table.unpersist()
        self._kept = [kept for kept in self._kept if all(kept is not table for table in tables)]

    def _write(self, name: str, table: DataFrame) -> None:
        store.write(table, self.folder, name, collect=self.small)

    def _given(self, name: str) -> DataFrame:
        """A table of `tables`, sent to every executor if it is small: of these there are pairs of nodes."""
        table = self.tables[name]
        frame = self.spark.createDataFrame(table)
        return F.broadcast(frame) if table.num_rows < _MOST_SENT else frame

    def _converged(self) -> tuple[float | None, int]:
        """Convergence in wall seconds (None: no RA of the first wave was captured), and its end in ns."""
        inputs = self.inputs
        if not inputs.opening:
            return None, inputs.clock.start_ns
        opening = self.spark.createDataFrame(opening_table(inputs.opening))
        last_ns = _one(routers.first_wave_end(self.frames, opening))["last_ns"]
        if last_ns is None:
            return None, max(first.confirmed_ns for first in inputs.opening.values())
        return (last_ns - inputs.clock.start_ns) / 1e9, last_ns

    def _arrived(self) -> DataFrame:
        crossed = paths.crossings(self.frames, self._given("trees"))
        shortest = self._given("shortest_paths")
        table = self._keep(paths.arrivals(crossed, self.links, shortest))
        self._write("arrivals", table)
        return table

    def _of_applications(self) -> dict[str, Any]:
        clock = self.inputs.clock
        oracle = self.spark.createDataFrame(self.inputs.oracle)
        outcomes = self._keep(deliveries.outcomes(oracle, self.deliveries, self.sent))
        self._write("messages", deliveries.messages(self.sent, outcomes, clock))
        self._write("false_negative_curve", curves.false_negative_curve(outcomes, clock))
        convergence_s, converged_ns = self._convergence.result()
        totals = _one(deliveries.outcome_totals(outcomes, converged_ns))
        arrivals = self._arrivals.result()
        made = self._keep(deliveries.delivered(outcomes, arrivals, clock))
        self._write("deliveries", made)
        delay, stretch = _one(deliveries.delay_totals(made)), _one(paths.arrival_totals(arrivals))
        self._release(outcomes, made, arrivals)
        return {**totals, "convergence_s": convergence_s, "delivery_delay": delay, "stretch": stretch}

    def _of_predicates(self) -> dict[str, Any]:
        log = self.inputs.log
        declared = self.spark.createDataFrame(log.declared)
        table = deliveries.predicates(declared, self.deliveries, log.last_ns, self.inputs.clock)
        self._write("predicates", table)
        return {}

    def _of_frames(self) -> dict[str, Any]:
        if self.small:
            store.write_frames(self.frames, self.folder)
        return {}

    def _of_logs(self) -> dict[str, Any]:
        for name, table in self.tables.items():
            store.write_arrow(table, self.folder, name)
        return {}

    def _of_traffic(self) -> list[Total]:
        clock, bin_s = self.inputs.clock, self.inputs.bin_s
        table = self._keep(traffic.traffic(self.frames, clock, bin_s))
        totals = self._keep(traffic.capture_totals(table))
        rows = [Total(**row.asDict()) for row in totals.collect()]
        bins = traffic.link_bins(table, bin_s)
        self._write("link_bins", bins)
        self._write("link_totals", traffic.link_totals(bins))
        self._write("type_bins", traffic.type_bins(bins, bin_s))
        self._write("link_utilisation", traffic.utilisation(bins, self.links, clock, bin_s))
        self._write("talkers", traffic.talkers(totals))
        files = self.spark.createDataFrame(self.files)
        self._write("captures", traffic.capture_health(totals, files, clock))
        self._release(table, totals)
        return rows

    def _of_routers(self) -> dict[str, Any]:
        processed = routers.processed(self.frames, self.sent, self.deliveries)
        # What routers did with messages is seen on their host links, on all of them or not at all.
        everywhere = self.inputs.all_hosts_captured
        processed = self._keep(processed) if everywhere else processed.where("false")
        self._write("false_positive_curve", curves.false_positive_curve(processed, self.inputs.clock))
        totals = _one(routers.processed_totals(processed))
        self._release(processed)
        return totals

    def _of_control(self) -> dict[str, Any]:
        curve = self._keep(curves.control_curve(self.frames, self.inputs.clock))
        self._write("control_share_curve", curves.control_share_curve(curve))
        self._write("control_rate_curve", curves.control_rate_curve(curve))
        self._release(curve)
        self._write("advertised", traffic.advertised(self.frames))
        return {}

    def _of_repetitions(self) -> dict[str, Any]:
        repeated = self._keep(paths.repeated(self.frames))
        self._write("repeated_frames", repeated)
        totals = _one(paths.repeated_total(repeated))
        self._release(repeated)
        return totals

    def _of_changes(self) -> dict[str, Any]:
        epochs = self.inputs.epochs
        advertised = (
            {row.epoch: row.last_ns for row in advertised_again(self.frames).collect()}
            if epochs.changes
            else {}
        )
        return {
            "epochs": epochs.committed,
            "recovery_s": recovery(epochs.changes, advertised, self.inputs.clock),
        }


def end_jobs(spark: SparkSession, work: Sequence[Future[Any]]) -> None:
    """Ends every job of a session until all of `work`, which starts some, is done."""
    while going := [future for future in work if not future.done()]:
        with suppress(Py4JError, OSError):
            spark.sparkContext.cancelAllJobs()
        # What was being planned is a job by then.
        wait(going, _AGAIN_S)


def _one(table: DataFrame) -> dict[str, Any]:
    """The only row of a table of totals."""
    (row,) = table.collect()
    values: dict[str, Any] = row.asDict()
    return values
