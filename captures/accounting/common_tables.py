"""Tables whose definition is one text of SQL for both engines, Spark and DuckDB.

For changes of predicates and RAs, of which there are few, DuckDB makes the tables in either case: planning a
query of Spark takes longer. `QUERIES` has the texts. Names in braces are tables, and expressions of times in
experiment seconds.
"""

from __future__ import annotations

import duckdb
import pyarrow as pa
from pyspark.sql import DataFrame

from captures.accounting.inputs import Inputs
from captures.accounting.registry import step, table
from captures.accounting.times import experiment_seconds
from captures.rundir.clock import Clock
from captures.spark.internals import on_spark
from captures.tables.catalogue import TABLES
from captures.tables.query import new_database
from router.clock.pieces import NS

#: RAs in the captures, by issuer and sequence number.
_WAVES = """
    select issuer, seq, min(epoch) as epoch, max(predicate) as predicate,
        min(time_ns) as first_ns, max(time_ns) as last_ns,
        count(distinct case when kind = 'host' and direction = 'to_router' then node end) as routers,
        count(case when kind = 'link' then 1 end) as frames,
        cast(coalesce(sum(case when kind = 'link' then length end), 0) as bigint) as bytes
    from {frames} where type = 'RA' and undecodable is null and time_ns is not null
    group by issuer, seq
"""
#: Every change gets the first RA of its router from its request on. The least time of an RA among the rows
#: from a change on is a running minimum in descending order of time. The high 32 bits of a sequence number
#: tell the starts of a router apart.
#:
#: A change that other predicates of the node cover causes no RA, and the next RA has another cause. That RA
#: repeats the predicate of the RA before (a new epoch, a period), or is late and another change of the node
#: precedes it. The predicates of a private run cannot be compared: there, a late RA has another cause in any
#: case. The first RA of a router reports all changes before it, which may have waited for the first epoch.
_CHANGES = """
    with timeline as (
        select cast(node as bigint) as issuer, requested_ns as at_ns, cast(null as bigint) as first_ns
        from {declared}
        union all select issuer, first_ns, first_ns from {waves}
    ), answered as (
        select distinct issuer, at_ns,
            min(first_ns) over (partition by issuer order by at_ns desc) as answered_ns
        from timeline
    ), changed as (
        select node, app, t_ns, requested_ns, predicate, filters,
            filters - coalesce(lag(filters) over (partition by node, app order by t_ns), 0) as more,
            lead(requested_ns) over (partition by node order by requested_ns) as next_ns
        from {declared}
    ), counted as (
        select node, app, t_ns, requested_ns, predicate, filters, next_ns,
            sum(more) over (partition by node order by t_ns) as filters_of_node
        from changed
    ), issued as (
        select issuer, seq, first_ns, predicate, predicate like 'encoded, %' as encoded,
            lag(predicate) over (partition by issuer, seq >> 32 order by first_ns, seq) as former,
            row_number() over (partition by issuer, seq >> 32 order by first_ns, seq) = 1 as opens
        from {waves}
    ), wave as (
        select issuer, first_ns, min(seq) as seq, min_by(predicate, seq) as advertised,
            min_by(encoded, seq) as encoded, min_by(opens, seq) as opens,
            coalesce(min_by(predicate = former and not encoded, seq), false) as repeats
        from issued group by issuer, first_ns
    )
    select counted.node, app, {t_s} as t_s, t_ns, requested_ns, predicate, filters,
        cast(counted.node as bigint) as issuer,
        case when not repeats and (filters_of_node > 0 or advertised = 'none') and (
            opens or answered_ns <= t_ns + {wait_ns}
            or not (encoded or coalesce(next_ns <= answered_ns, false))
        ) then wave.seq end as seq
    from counted
    left join answered on answered.issuer = counted.node and at_ns = requested_ns
    left join wave on wave.issuer = counted.node and wave.first_ns = answered_ns
"""
_ADVERTISEMENTS = """
    with caused as (
        select issuer, seq, count(*) as changes from {changes} where seq is not null group by issuer, seq
    ), placed as (
        select issuer, seq, epoch, predicate, first_ns, last_ns, routers, frames, bytes,
            epoch > min(epoch) over (partition by issuer) as later,
            row_number() over (partition by issuer, epoch order by first_ns, seq) as place
        from {waves}
    )
    select placed.issuer, placed.seq, epoch, predicate,
        case when changes is not null then 'predicate' when later and place = 1 then 'epoch' end as cause,
        coalesce(changes, 0) as changes, {first_s} as t_s, first_ns, last_ns,
        case when {all_hosts} then routers end as routers, frames, bytes
    from placed left join caused on caused.issuer = placed.issuer and caused.seq = placed.seq
"""
#: Of the frames of a message, the first fragment alone tells when it left and arrived.
_HOPS = """
    with seen as (
        select node, direction, from_node, issuer as source, seq, epoch, fragment_index, time_ns
        from {frames}
        where kind = 'host' and type = 'MSG' and undecodable is null and time_ns is not null
    ), arrived as (
        select source, seq, from_node, node as to_node, min(time_ns) as arrived_ns from seen
        where direction = 'to_router' and fragment_index = 0 and from_node is not null
        group by source, seq, from_node, node
    ), departed as (
        select source, seq, node as from_node, time_ns as out_ns from seen
        where direction = 'from_router' and fragment_index = 0
    ), crossed as (
        select arrived.source, arrived.seq, arrived.from_node, to_node, arrived_ns, max(out_ns) as departed_ns
        from arrived left join departed on departed.source = arrived.source and departed.seq = arrived.seq
            and departed.from_node = arrived.from_node and out_ns <= arrived_ns
        group by arrived.source, arrived.seq, arrived.from_node, to_node, arrived_ns
    ), taken as (
        select seen.source, seen.seq, seen.node as at_node, time_ns from seen left join {trees} as trees
            on trees.epoch = seen.epoch and trees.node = seen.node and trees.source = seen.source
        where direction = 'to_router' and coalesce(from_node = parent, true)
        union all select source, seq, source, sent_ns from {sent}
    ), handled as (
        select crossed.source, crossed.seq, crossed.from_node, to_node, departed_ns, arrived_ns,
            max(time_ns) as taken_ns
        from crossed left join taken on taken.source = crossed.source and taken.seq = crossed.seq
            and at_node = from_node and time_ns <= departed_ns
        group by crossed.source, crossed.seq, crossed.from_node, to_node, departed_ns, arrived_ns
    ), directions as (
        select link, u as sender, v as receiver from {links} union all select link, v, u from {links}
    )
    select source, seq, from_node, to_node, link, departed_ns, arrived_ns, {arrived_s} as arrived_s,
        (departed_ns - taken_ns) / 1e9 as handling_wall_s, (arrived_ns - departed_ns) / 1e9 as latency_wall_s
    from handled left join directions on sender = from_node and receiver = to_node
"""
_PROCESSED = """
    select node, source, seq, {processed_s} as t_s, time_ns as t_ns, from_network, false_positive
    from {processed}
"""

#: Name of a table, or of a result that some of the tables need -> query, in the order in which they follow.
QUERIES = {
    "waves": _WAVES,
    "changes": _CHANGES,
    "predicate_changes": "select * from {changes}",
    "advertisements": _ADVERTISEMENTS,
    "hops": _HOPS,
    "processed": _PROCESSED,
}
#: The results that are no tables.
STEPS = ("waves", "changes")
#: The tables that DuckDB makes for both engines.
CAUSES = ("predicate_changes", "advertisements")
#: Expression -> column with a time, ns since 1970 UTC.
_TIMES = {
    "t_s": "t_ns",
    "first_s": "first_ns",
    "arrived_s": "arrived_ns",
    "processed_s": "time_ns",
}
#: A router that is not overloaded has sent an RA, which need not wait, in this time; wall ns.
_SENT_NS = 100_000_000
_SOURCES = ("frames", "declared", "trees", "sent", "links", "waves", "changes", "processed")


def conditions(inputs: Inputs) -> dict[str, str]:
    """The properties of a run that the texts name in braces, as SQL, for `query`.

    `all_hosts`: all host links were captured; `wait_ns`: the longest time from the confirmation of a change
    to the first frame of its RA, wall ns.
    """
    protocol = inputs.experiment.get("protocol", {})
    # Of the waits of exponential timers, all but 2 in 10^9.
    times = 20 if protocol.get("timers") == "exponential" else 1
    wait_s = times * protocol.get("ra_min_interval_s", 0) + protocol.get("ra_jitter_s", 0)
    wait_ns = _SENT_NS + round(wait_s / min(inputs.clock.rates) * NS)
    return {"all_hosts": "true" if inputs.all_hosts_captured else "false", "wait_ns": str(wait_ns)}


def query(name: str, clock: Clock, tables: dict[str, str] | None = None) -> str:
    """The text of a query.

    Args:
        tables: name of a table in the text -> its name for the engine; by default, the same. With
            `conditions`, for the texts that name some.
    """
    times = {key: experiment_seconds(clock, column) for key, column in _TIMES.items()}
    names = {each: each for each in _SOURCES} | (tables or {})
    return QUERIES[name].format(**times, **names)


def _on_spark(name: str, clock: Clock, **tables: DataFrame) -> DataFrame:
    return on_spark(query(name, clock, {each: f"{{{each}}}" for each in tables}), **tables)


@step()
def waves(frames: DataFrame, clock: Clock) -> pa.Table:
    """The RAs in the captures, by issuer and sequence number: a row for each, which one process can hold."""
    return _on_spark("waves", clock, frames=frames).toArrow()


@step()
def causes(waves: pa.Table, inputs: Inputs) -> dict[str, pa.Table]:
    """The tables `predicate_changes` and `advertisements`, by name."""
    with new_database(threads=1) as database:
        for name, held in (("waves", waves), ("declared", inputs.log.declared)):
            database.register(name, held)
        names = conditions(inputs)
        database.execute(f"create temp table changes as {query('changes', inputs.clock, names)}")
        return {name: in_duckdb(database, name, inputs.clock, names) for name in CAUSES}


def in_duckdb(
    database: duckdb.DuckDBPyConnection, name: str, clock: Clock, tables: dict[str, str] | None = None
) -> pa.Table:
    """A table of the catalogue, from the tables of a database; `tables` as for `query`."""
    found = database.sql(query(name, clock, tables)).to_arrow_table()
    return found.select(TABLES[name].schema.names).cast(TABLES[name].schema)


@table("predicate_changes")
def predicate_changes(causes: dict[str, pa.Table]) -> pa.Table:
    """The changes of predicates, with the RAs that they caused."""
    return causes["predicate_changes"]


@table("advertisements")
def advertisements(causes: dict[str, pa.Table]) -> pa.Table:
    """The RAs in the captures, with their causes."""
    return causes["advertisements"]


@table("hops")
def hops(frames: DataFrame, trees: DataFrame, sent: DataFrame, links: DataFrame, clock: Clock) -> DataFrame:
    """The ways of messages from router to router, by the captures of host links."""
    return _on_spark("hops", clock, frames=frames, trees=trees, sent=sent, links=links)


@table("processed")
def processed_messages(processed_at_routers: DataFrame, clock: Clock) -> DataFrame:
    """The messages at routers."""
    return _on_spark("processed", clock, processed=processed_at_routers)
