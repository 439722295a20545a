-- The only row has the quantiles, the maximum and the mean of the delays of first deliveries, wall seconds;
-- null: no message was delivered.
-- A quantile lies between the delays on both sides of its place among all, in proportion.
with delays as (
    select delivered_ns - sent_ns as delay_ns from outcomes where delivered_ns is not null and sent_ns is not null
), ranked as (
    select delay_ns, row_number() over (order by delay_ns) - 1 as place, count(*) over () - 1 as last_place
    from delays
), places as (
    select share, floor(share * last_place) as below, ceil(share * last_place) as above,
        share * last_place - floor(share * last_place) as beyond, delay_ns, place
    from ranked cross join (values (0.5e0), (0.9e0), (0.99e0)) as shares (share)
), bounds as (
    select share, beyond,
        max(delay_ns) filter (where place = below) as below_ns,
        max(delay_ns) filter (where place = above) as above_ns
    from places
    group by share, beyond
), quantiles as (
    select max(seconds) filter (where share = 0.5e0) as median_s,
        max(seconds) filter (where share = 0.9e0) as p90_s,
        max(seconds) filter (where share = 0.99e0) as p99_s
    from (select share, (below_ns + (above_ns - below_ns) * beyond) / 1e9 as seconds from bounds) as interpolated
), whole as (
    -- Delays of damaged records may be so long that a sum of bigint overflows.
    select max(delay_ns) / 1e9 as max_s,
        cast(sum(cast(delay_ns as decimal(38, 0))) as double) / nullif(count(*), 0) / 1e9 as mean_s
    from delays
)
select median_s, p90_s, p99_s, max_s, mean_s from quantiles cross join whole
