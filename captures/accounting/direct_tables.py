"""The tables of a small run on DuckDB, with the definitions of the functions of Spark.

Each query is under the name of its table, and gives the rows of the function that has the name in
`captures.accounting.registry`; a test holds the rows equal. `expressions` gives the names in braces.
"""

from __future__ import annotations

from captures.accounting.times import double, experiment_seconds, wall_seconds
from captures.accounting.windows import STEP_S, WINDOW_S
from captures.rundir.clock import Clock

_STEPS = round(WINDOW_S / STEP_S)
_CAPTURE = "capture, kind, link, node, direction, from_node, to_node"
#: Frames and bytes for each capture, direction, type and time bin (`captures.accounting.traffic`).
TRAFFIC = f"""
    select {_CAPTURE}, coalesce(type, 'undecodable') as type,
        floor({{frame_s}} / {{bin_s}}) * {{bin_s}} as bin_s, count(*) as frames, sum(length) as bytes,
        count(undecodable) as undecodable, min(time_ns) as first_ns, max(time_ns) as last_ns
    from frames group by all
"""
_RATES = "sum(frames) / {bin_s} as frames_per_s, sum(bytes) / {bin_s} as bytes_per_s"
_SUMS = "sum(frames) as frames, sum(bytes) as bytes"


def _way(name: str, direction: str) -> str:
    condition = f"direction = '{direction}'"
    return ", ".join(
        f"coalesce(sum({what}) filter ({condition}), 0) as {what}_{name}" for what in ("frames", "bytes")
    )


#: The moving sums of `captures.accounting.curves.control_curve`.
_CONTROL = f"""
    with counted as (
        select floor({{frame_s}} / {double(STEP_S)})::bigint as step,
            count(*) filter (type = 'MSG') as msg, count(*) filter (type = 'RA') as ra,
            count(*) filter (type in ('SR', 'UR')) as pull
        from frames where kind = 'link' and type in ('MSG', 'RA', 'SR', 'UR') and time_ns is not null
        group by 1
    ), spans as (
        select step, coalesce(lead(step) over (order by step) - 1, step) as until from counted
    ), every_step as (
        select distinct unnest(list_append(range(step, least(until, step + {_STEPS}) + 1), until)) as step
        from spans
    ), sums as (
        select (step + 1) * {double(STEP_S)} as t_s, coalesce(sum(msg) over moving, 0) as msg,
            coalesce(sum(ra) over moving, 0) as ra, coalesce(sum(pull) over moving, 0) as pull
        from every_step left join counted using (step)
        window moving as (order by step range between {_STEPS - 1} preceding and current row)
    )
"""

#: Table -> query.
QUERIES: dict[str, str] = {
    "link_bins": f"select link, from_node, to_node, type, bin_s, {_SUMS}, {_RATES} from traffic "
    "where kind = 'link' group by link, from_node, to_node, type, bin_s",
    "link_totals": f"select link, from_node, to_node, type, {_SUMS} from traffic where kind = 'link' "
    "group by link, from_node, to_node, type",
    "type_bins": f"select type, bin_s, {_SUMS}, {_RATES} from traffic where kind = 'link' "
    "group by type, bin_s",
    "link_utilisation": """
        select binned.*, bytes * 8 / {wall_s} as bits_per_wall_s,
            bytes * 8 / {wall_s} / (bandwidth_mbps * 1e6) as utilisation
        from (
            select link, from_node, to_node, bin_s, sum(bytes)::bigint as bytes from (
                select link, from_node, to_node, bin_s, bytes from traffic
                where kind = 'link' and from_node is not null
                union all select link, from_node, to_node, step * {bin_s}, 0
                from directions cross join range({bins}) as steps(step)
            ) group by link, from_node, to_node, bin_s
        ) as binned join links using (link)
    """,
    "talkers": f"select node, type, {_way('sent', 'from_router')}, {_way('received', 'to_router')} "
    "from traffic where kind = 'host' group by node, type",
    "captures": """
        with held as (
            select capture, sum(frames) as frames, sum(bytes) as bytes,
                sum(undecodable) as frames_undecodable, min(first_ns) as first_ns, max(last_ns) as last_ns
            from traffic group by capture
        )
        select files.*, coalesce(frames, 0) as frames, coalesce(bytes, 0) as bytes,
            coalesce(frames_undecodable, 0) as frames_undecodable, {first_s} as first_s, {last_s} as last_s
        from files left join held using (capture)
    """,
    "messages": """
        with counted as (
            select source, seq, count(*) filter (expected) as deliveries_expected,
                count(*) filter (deliveries > 0) as delivered, count(*) filter (missed) as missed,
                count(*) filter (missed and decided) as missed_decided,
                count(*) filter (spurious) as spurious, sum(greatest(deliveries - 1, 0)) as duplicates
            from outcomes group by source, seq
        )
        select source, seq, seq & 4294967295 as number, {sent_s} as sent_s, message,
            coalesce(deliveries_expected, 0) as deliveries_expected, coalesce(delivered, 0) as delivered,
            coalesce(missed, 0) as missed, coalesce(missed_decided, 0) as missed_decided,
            coalesce(spurious, 0) as spurious, coalesce(duplicates, 0) as duplicates
        from sent left join counted using (source, seq)
    """,
    "arrivals": "select * from arrivals",
    "deliveries": """
        select source, seq, node, app, {sent_s} as sent_s, (delivered_ns - sent_ns) / 1e9 as delay_wall_s,
            outcomes.deliveries as times, expected, decided,
            case when node = source then 0 else hops end as hops,
            case when node = source then 0 else cost end as cost,
            case when node = source then 0 else shortest_hops end as shortest_hops,
            case when node = source then 0 else shortest_cost end as shortest_cost
        from outcomes left join arrivals using (source, seq, node) where outcomes.deliveries > 0
    """,
    "predicates": """
        with following as (
            select *, lead(t_ns) over (partition by node, app order by t_ns) as next_ns from declared
        ), in_force as (
            select *, coalesce(next_ns, greatest({last_ns}, t_ns)) as until_ns
            from following where filters > 0
        )
        select in_force.node, in_force.app, predicate, filters, {from_s} as from_s, {until_s} as until_s,
            count(got.t_ns) as deliveries
        from in_force left join deliveries as got
            on got.node = in_force.node and got.app = in_force.app and got.t_ns >= in_force.t_ns
            and got.t_ns < coalesce(next_ns, until_ns + 1)
        group by in_force.node, in_force.app, predicate, filters, in_force.t_ns, until_ns
    """,
    "advertised": """
        select type, predicate, count(distinct issuer) as issuers, count(*) as crossings,
            sum(total_length) as body_bytes
        from frames
        where kind = 'link' and type in ('RA', 'UR') and fragment in ('whole', 'completing')
            and undecodable is null
        group by type, predicate
    """,
    "repeated_frames": """
        select link, from_node, issuer as source, seq, fragment_index, count(*) as crossings from frames
        where kind = 'link' and type = 'MSG' group by all having count(*) > 1
    """,
    "savings": "select * from savings",
    "link_savings": """
        with counted as (
            select link, from_node, to_node, count(*) as cbcb
            from (select distinct source, seq, link, from_node, to_node from crossings) group by all
        )
        select known.*, coalesce(cbcb, 0) as cbcb
        from link_baselines as known left join counted using (link, from_node, to_node)
    """,
    "schemes": "select node, {scheme} as scheme, part, unit, value from memory",
    "control_share_curve": f"{_CONTROL} select t_s, (ra + pull) / (msg + ra + pull) as fraction, "
    "ra / (msg + ra + pull) as ra_fraction from sums where msg + ra + pull > 0 order by t_s",
    "control_rate_curve": f"{_CONTROL} select t_s, msg / {double(WINDOW_S)} as msg_per_s, "
    f"ra / {double(WINDOW_S)} as ra_per_s, pull / {double(WINDOW_S)} as sr_ur_per_s from sums "
    "order by t_s",
}


def expressions(clock: Clock, bin_s: float, bins: int, last_ns: int, scheme: str) -> dict[str, str]:
    """Returns the expressions that the queries name in braces, as SQL.

    Args:
        bin_s: width of a time bin in experiment seconds.
        bins: number of the bins from second 0 to the last event of the run.
        last_ns: time of the last event of the run, ns since 1970 UTC.
        scheme: routing scheme of the experiment.
    """
    times = {
        "frame_s": "time_ns",
        "sent_s": "sent_ns",
        "first_s": "first_ns",
        "last_s": "last_ns",
        "from_s": "in_force.t_ns",
        "until_s": "until_ns",
    }
    return {
        **{name: experiment_seconds(clock, column) for name, column in times.items()},
        "bin_s": double(bin_s),
        "bins": str(bins),
        "wall_s": wall_seconds(clock, "bin_s", bin_s),
        "last_ns": str(last_ns),
        "scheme": "'" + scheme.replace("'", "''") + "'",
    }
