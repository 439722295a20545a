-- A row is a change of the predicate of an application, with the RA that it caused (`seq`; null: none).
-- Every change gets the first RA of its router from its request on. The least time of an RA among the rows from a
-- change on is a running minimum in descending order of time. The high 32 bits of a sequence number tell the
-- starts of a router apart.
-- A change that other predicates of the node cover causes no RA, and the next RA has another cause. That RA repeats
-- the predicate of the RA before (a new epoch, a period), or is late and another change of the node precedes it. The
-- predicates of a private run cannot be compared: there, a late RA has another cause in any case. The first RA of a
-- router reports all changes before it, which may have waited for the first epoch.
with timeline as (
    select cast(node as bigint) as issuer, requested_ns as at_ns, cast(null as bigint) as first_ns from declared
    union all
    select issuer, first_ns, first_ns from waves
), answered as (
    select distinct issuer, at_ns,
        min(first_ns) over (partition by issuer order by at_ns desc) as answered_ns
    from timeline
), changed as (
    select node, app, t_ns, requested_ns, predicate, filters, place,
        filters - coalesce(lag(filters) over (partition by node, app order by t_ns, place), 0) as more,
        lead(requested_ns) over (partition by node order by requested_ns, place) as next_ns
    from declared
), counted as (
    select node, app, t_ns, requested_ns, predicate, filters, next_ns,
        sum(more) over (partition by node order by t_ns, place) as filters_of_node
    from changed
), issued as (
    select issuer, seq, first_ns, predicate, predicate like 'encoded, %' as encoded,
        lag(predicate) over (partition by issuer, incarnation(seq) order by first_ns, seq) as former,
        row_number() over (partition by issuer, incarnation(seq) order by first_ns, seq) = 1 as opens
    from waves
), wave as (
    select issuer, first_ns, min(seq) as seq, min_by(predicate, seq) as advertised,
        min_by(encoded, seq) as encoded, min_by(opens, seq) as opens,
        min_by(coalesce(predicate = former and not encoded, false), seq) as repeats
    from issued
    group by issuer, first_ns
)
select counted.node, app, t_ns, requested_ns, predicate, filters, cast(counted.node as bigint) as issuer,
    case when not repeats and (filters_of_node > 0 or advertised = 'none') and (
        opens or answered_ns <= t_ns + $wait_ns or not (encoded or coalesce(next_ns <= answered_ns, false))
    ) then wave.seq end as seq
from counted
left join answered on answered.issuer = counted.node and at_ns = requested_ns
left join wave on wave.issuer = counted.node and wave.first_ns = answered_ns
