-- A row is a router, index and time bin in which the index changed or was used; none without `record_caches`.
with uses as (
    select node, after as place, t_ns, 1 as entered, 0 as gone, 0 as evicted, 0 as hits
    from service
    where event = 'cache' and after is not null
    union all
    select node, before, t_ns, 0, 1, case when cause in ('evicted', 'flushed') then 1 else 0 end, 0
    from service
    where event = 'cache' and before is not null
    union all
    select node, whence, t_ns, 0, 0, 0, 1
    from service
    where event = 'deliver' and whence in ('ppt', 'dpt', 'opt')
        and (select count(*) from service where event = 'cache') > 0
), binned as (
    select node, place, floor(experiment_s(t_ns) / $bin_s) * $bin_s as bin_s, entered, gone, evicted, hits from uses
), counted as (
    select node, place, bin_s, cast(sum(entered) as bigint) as entered, cast(sum(gone) as bigint) as gone,
        cast(sum(evicted) as bigint) as evicted, cast(sum(hits) as bigint) as hits
    from binned
    group by node, place, bin_s
)
select node, place as index, bin_s,
    cast(sum(entered - gone) over (partition by node, place order by bin_s) as bigint) as size,
    entered, gone as left, evicted, hits
from counted
order by node, place, bin_s
