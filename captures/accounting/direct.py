"""The keys of summary.json and the curves of one run on DuckDB, in this process.

A sweep accounts for thousands of small runs inside tasks of Spark, where no session of Spark can start, and
where planning Spark's queries would take longer than the simulation. `Direct` answers the same questions with
the same definitions in SQL; the steps that are Python in `captures.accounting` are the same functions. Tests
hold its keys and tables equal to Spark's. It does not run tshark: a sweep checks the protocol, and the reader
of captures has been compared with tshark elsewhere.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

from captures.accounting import baselines, common_tables, paths, schemes
from captures.accounting.conclusion import conclusion, judged
from captures.accounting.contradictions import Suspicious, recorded_messages, suspicious_query
from captures.accounting.deliveries import OUTCOMES, outcome_totals_text
from captures.accounting.direct_tables import QUERIES, TRAFFIC, expressions
from captures.accounting.expressions import for_duckdb
from captures.accounting.inputs import Inputs, capture_files, defects, read_inputs
from captures.accounting.log_tables import opening_table
from captures.accounting.private import private_keys
from captures.accounting.reconcile import Total
from captures.accounting.recovery import recovery
from captures.accounting.registry import LOG_TABLES, load
from captures.accounting.routers import PROCESSED, PROCESSED_TOTALS, Convergence
from captures.accounting.times import double, experiment_seconds
from captures.accounting.traffic import WHOLE, frames_by_type, link_directions
from captures.accounting.uncaptured import processed_by_counters
from captures.accounting.windows import STEP_S, WINDOW_S
from captures.frames.columns import COLUMNS, SCHEMA
from captures.frames.decoder import FrameDecoder
from captures.frames.identity import CaptureIdentity
from captures.pcap.reader import PcapReader
from captures.rundir.layout import RunLayout
from captures.tables.catalogue import TABLES
from captures.tables.query import new_database
from captures.tables.store import FRAMES

load()

#: The tables of logs that the keys need.
_TABLES = ("oracle", "trees", "shortest_paths", "links", "private_deliveries")
_COLUMNS = (
    *("capture", "kind", "link", "node", "direction", "from_node", "to_node", "type", "time_ns", "length"),
    *("issuer", "seq", "epoch", "undecodable", "fragment", "fragment_index", "total_length"),
    *("attributes", "attention"),
)
_CROSSINGS = """
    select issuer as source, seq, frames.epoch, link, from_node, to_node, min(time_ns) as first_ns,
        trees.parent is not null and from_node = trees.parent as on_tree
    from frames left join trees
        on trees.epoch = frames.epoch and trees.node = frames.to_node and trees.source = frames.issuer
    where kind = 'link' and type = 'MSG' and undecodable is null group by all
"""
_ARRIVALS = """
    select source, seq, to_node as node, from_node, link, first_ns as arrived_ns, cost as link_cost
    from crossings join links using (link)
    where to_node is not null and to_node <> source
    qualify row_number() over (
        partition by source, seq, to_node order by not on_tree, first_ns, from_node, link
    ) = 1
"""
_FIRST_WAVE = """
    with waves as (
        select issuer, seq, min(time_ns) as first_ns, max(time_ns) as last_ns from frames
        where type = 'RA' and undecodable is null group by issuer, seq
    )
    select max(last_ns) from (
        select last_ns from waves join opening on issuer = node where first_ns >= requested_ns
        qualify row_number() over (partition by issuer order by first_ns, seq) = 1
    )
"""
_ADVERTISED_AGAIN = """
    with advertisements as (
        select issuer, epoch, seq, time_ns from frames where type = 'RA' and undecodable is null
    ), first as (
        select issuer, epoch, arg_min(seq, time_ns) as seq from advertisements group by issuer, epoch
        qualify row_number() over (partition by issuer order by epoch) > 1
    )
    select epoch, max(time_ns) from advertisements join first using (issuer, epoch, seq) group by epoch
"""
_SAVINGS = """
    with crossed as (select distinct source, seq, link, from_node, to_node from crossings),
    counted as (select source, seq, count(*) as cbcb from crossed group by all)
    select baselines.*, coalesce(cbcb, 0) as cbcb from baselines left join counted using (source, seq)
"""
_PATHS = "select * from walked left join shortest_paths using (source, node)"
_MEMORY = """
    select node, part, unit, value from held
    union all
    select node, 'broadcast', 'bytes', max_by(total_length, epoch)::bigint from frames
    where kind = 'host' and direction = 'to_router' and type = 'TABLE' and undecodable is null group by node
"""


class Direct:
    """The accounting of one run in memory.

    Args:
        run_dir: a run folder with the oracle's answers.
        whole: whether all columns of the frames are decoded, for `all_tables`.

    Raises:
        RunFolderError: a file of the run folder is missing or malformed.
        PcapError: a capture file is no pcap file.
    """

    def __init__(self, run_dir: Path, *, whole: bool = False) -> None:
        layout = RunLayout(run_dir)
        self.inputs: Inputs = read_inputs(layout)
        self._files = {each.identity.name: run_dir / each.file for each in self.inputs.captures}
        names = tuple(LOG_TABLES) if whole else _TABLES
        self.tables: dict[str, pa.Table] = {name: LOG_TABLES[name](self.inputs) for name in names}
        self._columns = tuple(COLUMNS) if whole else _COLUMNS
        self._derived = False
        self._stack = ExitStack()
        self._database = self._stack.enter_context(new_database(threads=1))
        log = self.inputs.log
        named = {self._files[each.identity.name]: each.identity for each in self.inputs.captures}
        self._frames = decoded_frames(named, self._columns)
        for name, held in {
            **{name: self.tables[name] for name in _TABLES},
            "frames": self._frames,
            "sent": log.sent,
            "deliveries": log.deliveries,
            "lost": log.lost,
            "declared": log.declared,
            "opening": opening_table(self.inputs.opening),
            "recorded": recorded_messages(self.inputs),
        }.items():
            self._database.register(name, held)
        for name, query in (("outcomes", OUTCOMES), ("processed", PROCESSED), ("crossings", _CROSSINGS)):
            text = for_duckdb(query, "frames", "oracle", "deliveries", "lost", "sent")
            self._database.execute(f"create temp table {name} as {text}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Frees the memory of the database, and removes its temporary folder."""
        self._stack.close()

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
        counted: dict[str, Any] = {
            **frames_by_type(self._totals),
            **self._outcome_totals(),
            **self._processed_totals(),
            **self._recovery(),
            "convergence_s": self._convergence.seconds,
            "delivery_delay": self._delays(),
            "stretch": self._stretch(),
            "frames_repeated": self._repeated(),
            "message_crossings": self._message_crossings(),
            "excess_crossings": self._excess(),
            "state": self._state(),
            "private": self._private(),
        }
        text = suspicious_query(self.inputs, "hash(attributes)")
        messages = [Suspicious(*row) for row in self._database.execute(text).fetchall()]
        return conclusion(
            *(self.inputs, "duckdb", self._totals, counted, messages, self._defects),
            "the engine duckdb does not run it",
        )

    def false_negatives(self, window_s: float | None = None) -> pa.Table:
        """Returns the table `false_negative_curve`; None: with its window."""
        window_s = window_s or max(0.25, 0.01 * max(self.inputs.clock.rates))
        where = "expected and sent_ns is not null"
        return self._trailing(f"outcomes where {where}", "sent_ns", "missed", "true", window_s, window_s / 5)

    def false_positives(self, window_s: float = WINDOW_S) -> pa.Table:
        """Returns the table `false_positive_curve`; empty unless all host links were captured."""
        known = "true" if self.inputs.all_hosts_captured else "false"
        source = f"processed where {known}"
        return self._trailing(source, "time_ns", "false_positive", "true", window_s, STEP_S)

    def share_of(self, kinds: tuple[str, ...], window_s: float = WINDOW_S) -> pa.Table:
        """Returns the share of frames of some types among MSG, RA, SR and UR frames on links, as a curve."""
        listed = ", ".join(f"'{kind}'" for kind in kinds)
        source = "frames where kind = 'link' and type in ('MSG', 'RA', 'SR', 'UR')"
        return self._trailing(source, "time_ns", f"type in ({listed})", "true", window_s, STEP_S)

    def all_tables(self) -> Iterator[tuple[str, pa.Table]]:
        """Yields the tables of the catalogue by name, with its columns.

        The accounting must have been made with `whole`.
        """
        yield from self.tables.items()
        time_s = experiment_seconds(self.inputs.clock, "time_ns")
        sender = "case when type = 'MSG' then issuer end"
        frames = self.sql(f"select *, {time_s} as time_s, {sender} as source from frames")
        yield FRAMES, frames.select(TABLES[FRAMES].schema.names).cast(TABLES[FRAMES].schema)
        yield "false_negative_curve", self.false_negatives()
        yield "false_positive_curve", self.false_positives()
        self._derive()
        inputs = self.inputs
        scheme = schemes.scheme_name(inputs)
        names = expressions(inputs.clock, inputs.bin_s, inputs.bins, inputs.log.last_ns, scheme)
        self._database.register("directions", link_directions(inputs.captures))
        self._database.register("files", capture_files(inputs.captures, self._defects))
        self._database.execute(f"create temp table traffic as {TRAFFIC.format(**names)}")
        for name, query in QUERIES.items():
            found = self.sql(query.format(**names))
            yield name, found.select(TABLES[name].schema.names).cast(TABLES[name].schema)
        yield from self._common_tables()

    def _common_tables(self) -> Iterator[tuple[str, pa.Table]]:
        names = common_tables.conditions(self.inputs)
        tables = {**names, "processed": f"(select * from processed where {names['all_hosts']})"}
        clock = self.inputs.clock
        for name in common_tables.QUERIES:
            if name in common_tables.STEPS:
                query = common_tables.query(name, clock, tables)
                self._database.execute(f"create temp table {name} as {query}")
            else:
                yield name, common_tables.in_duckdb(self._database, name, clock, tables)

    def sql(self, query: str) -> pa.Table:
        """Returns the answer to a query over frames, sent, deliveries, outcomes, processed, crossings.

        Once `summary` has been called, also over arrivals, savings, memory and the tables that they are made
        of, such as `held`.
        """
        return self._database.sql(query).to_arrow_table()

    def _row(self, query: str) -> dict[str, Any]:
        (row,) = self.sql(query).to_pylist()
        return dict(row)

    @cached_property
    def _defects(self) -> dict[str, str]:
        return defects(self._files)

    @cached_property
    def _totals(self) -> list[Total]:
        keys = "capture, kind, link, node, direction, from_node, to_node"
        rows = self.sql(
            f"select {keys}, coalesce(type, 'undecodable') as type, count(*) as frames, "
            "sum(length)::bigint as bytes, count(undecodable) as undecodable, min(time_ns) as first_ns, "
            f"max(time_ns) as last_ns, count(*) filter ({WHOLE}) as whole, "
            f"count(*) filter ({WHOLE} and issuer = node) as own from frames group by all"
        )
        return [Total(**row) for row in rows.to_pylist()]

    @cached_property
    def _convergence(self) -> Convergence:
        ((last_ns,),) = self._database.execute(_FIRST_WAVE).fetchall()
        return Convergence.of(self.inputs, last_ns)

    def _outcome_totals(self) -> dict[str, Any]:
        return self._row(for_duckdb(outcome_totals_text(self._convergence.end_ns), "outcomes"))

    def _processed_totals(self) -> dict[str, int]:
        if not self.inputs.all_hosts_captured:
            return processed_by_counters(self.inputs.router_counters.values())
        return self._row(for_duckdb(PROCESSED_TOTALS, "processed"))

    def _recovery(self) -> dict[str, Any]:
        epochs = self.inputs.epochs
        rows = self._database.execute(_ADVERTISED_AGAIN).fetchall() if epochs.changes else []
        return {
            "epochs": epochs.committed,
            "recovery_s": recovery(epochs.changes, dict(rows), self.inputs.clock),
        }

    def _delays(self) -> dict[str, Any]:
        delay = "(delivered_ns - sent_ns) / 1e9"
        quantiles = {"median_s": 0.5, "p90_s": 0.9, "p99_s": 0.99}
        columns = ", ".join(f"quantile_cont({delay}, {share}) as {n}" for n, share in quantiles.items())
        return self._row(
            f"select {columns}, max({delay}) as max_s, "
            "sum(delivered_ns - sent_ns) / count(*) / 1e9 as mean_s "
            "from outcomes where deliveries > 0"
        )

    def _stretch(self) -> dict[str, Any]:
        self._derive()
        return paths.stretch_totals(
            self.sql(f"select {', '.join(paths.LENGTHS)}, count(*) as arrivals from arrivals group by all")
        )

    def _repeated(self) -> int:
        keys = "link, from_node, issuer, seq, fragment_index"
        row = self._row(
            "select coalesce(sum(times - 1), 0)::bigint as frames_repeated from ("
            "select count(*) as times from frames where kind = 'link' and type = 'MSG' "
            f"group by {keys} having count(*) > 1)"
        )
        return int(row["frames_repeated"])

    def _derive(self) -> None:
        """Makes the tables that need steps in Python: `walked`, `savings`, `link_baselines`, `memory`."""
        if self._derived:
            return
        self._derived = True
        into = self.sql(_ARRIVALS)
        walked = pa.Table.from_batches(
            list(paths.walk(iter(into.combine_chunks().to_batches()))), schema=paths.WALKED
        )
        seen = self.sql("select source, seq, min(epoch) as epoch from crossings group by source, seq")
        known = baselines.compute(self.inputs.topology, self.inputs.log.sent, self.tables, seen)
        for name, held in {
            "walked": walked,
            "baselines": known.messages,
            "link_baselines": known.links,
            "held": schemes.held(self.inputs),
        }.items():
            self._database.register(name, held)
        for name, query in (("arrivals", _PATHS), ("savings", _SAVINGS), ("memory", _MEMORY)):
            self._database.execute(f"create temp table {name} as {query}")

    def _message_crossings(self) -> dict[str, int]:
        self._derive()
        sums = ", ".join(f"coalesce(sum({way}), 0)::bigint as {way}" for way in baselines.WAYS)
        return self._row(
            f"select count(*) as messages, coalesce(sum(cbcb), 0)::bigint as cbcb, {sums} from savings"
        )

    def _excess(self) -> int:
        """Returns the key excess_crossings."""
        self._derive()
        row = self._row(
            "select coalesce(sum(cbcb - minimal), 0)::bigint as excess from savings "
            f"semi join (select source, seq from sent where sent_ns >= {self._convergence.end_ns}) "
            "using (source, seq) "
            "anti join (select source, seq from oracle where not decided) using (source, seq)"
        )
        return int(row["excess"])

    def _private(self) -> dict[str, Any] | None:
        seen = self.sql(
            "select source, seq, min(epoch) as epoch, count(distinct (link, from_node, to_node)) as crossings"
            " from crossings group by source, seq"
        )
        return private_keys(self.inputs, self.tables, seen)

    def _state(self) -> dict[str, int]:
        self._derive()
        sums = ", ".join(
            f"coalesce(sum(value) filter (part = '{part}' and unit = '{unit}'), 0)::bigint as {part}_{unit}"
            for part, units in schemes.STATE.items()
            for unit in units
        )
        return self._row(f"select {sums} from memory")

    def _trailing(
        self, source: str, time: str, part: str, whole: str, window_s: float, step_s: float
    ) -> pa.Table:
        """Returns a moving share, as `captures.accounting.curves.trailing_share`."""
        clock = self.inputs.clock
        steps = max(1, round(window_s / step_s))
        second = experiment_seconds(clock, time)
        return self.sql(
            f"with steps as (select floor({second} / {double(step_s)})::bigint as step, "
            f"count(*) filter ({part}) as part, count(*) filter ({whole}) as whole from {source} group by 1"
            "), summed as (select step, sum(part) over moving as part, sum(whole) over moving as whole "
            f"from steps window moving as (order by step range between {steps - 1} preceding "
            f"and current row)) select (step + 1) * {double(step_s)} as t_s, part / whole as fraction "
            "from summed where whole > 0 order by step"
        )


def decoded_frames(
    captures: Mapping[Path, CaptureIdentity], columns: Sequence[str], *, growing: bool = False
) -> pa.Table:
    """Returns the frames of captures, with some columns of the table `frames`.

    Args:
        captures: file -> the capture that it holds.
        growing: whether the files are being written; see `PcapReader`.

    Raises:
        PcapError: a file is no pcap file.
    """
    batches = []
    for path, identity in captures.items():
        decoder = FrameDecoder(identity, tuple(columns))
        batches += [decoder.decode(block) for block in PcapReader(path, growing=growing).blocks()]
    schema = pa.schema([SCHEMA.field(name) for name in columns])
    return pa.Table.from_batches(batches) if batches else schema.empty_table()


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
