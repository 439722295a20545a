-- A row is an RA in the captures, with its cause.
with caused as (
    select issuer, seq, count(*) as changes from changes where seq is not null group by issuer, seq
), placed as (
    select issuer, seq, epoch, predicate, first_ns, last_ns, routers, frames, bytes,
        epoch > min(epoch) over (partition by issuer) as later,
        row_number() over (partition by issuer, epoch order by first_ns, seq) as place
    from waves
)
select placed.issuer, placed.seq, incarnation(placed.seq) as incarnation, number(placed.seq) as number,
    epoch, predicate,
    case when changes is not null then 'predicate' when later and place = 1 then 'epoch' end as cause,
    coalesce(changes, 0) as changes, experiment_s(first_ns) as t_s, first_ns, last_ns,
    case when $all_hosts then routers end as routers, frames, bytes
from placed left join caused on caused.issuer = placed.issuer and caused.seq = placed.seq
