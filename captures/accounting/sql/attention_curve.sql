-- A row is a point: the attention-limited service in the time bin that ends there.
with events as (
    select cast(floor(experiment_s(t_ns) / $bin_s) as bigint) as place, event, whence, cast(null as string) as outcome
    from service
    union all
    select cast(floor((begin_s + coalesce(filled_s, lifetime_s)) / $bin_s) as bigint), null, null, outcome
    from subscriptions
    where outcome in ('satisfied', 'starved', 'short')
)
select (place + 1) * $bin_s as t_s,
    count(*) filter (where event = 'upload') / $bin_s as publications_per_s,
    count(*) filter (where event in ('register', 'refresh')) / $bin_s as registrations_per_s,
    count(*) filter (where event = 'deliver') / $bin_s as deliveries_per_s,
    count(*) filter (where event = 'deliver' and whence = 'remote')
        / nullif(count(*) filter (where event = 'deliver'), 0) as remote_fraction,
    count(*) filter (where outcome = 'satisfied') / nullif(count(outcome), 0) as satisfied_fraction,
    count(*) filter (where outcome = 'starved') / nullif(count(outcome), 0) as starved_fraction
from events
group by place
order by t_s
