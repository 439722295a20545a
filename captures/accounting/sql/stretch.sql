-- The only row has the mean and the largest stretch: the length of the path taken over that of the shortest path.
-- A sum of whole billionths depends neither on the engine nor on the order of the rows.
select
    cast(sum(cast(round(1e9 * hops / nullif(shortest_hops, 0)) as bigint)) as bigint)
        / nullif(count(hops / nullif(shortest_hops, 0)), 0) / 1e9 as stretch_hops_mean,
    max(hops / nullif(shortest_hops, 0)) as stretch_hops_max,
    cast(sum(cast(round(1e9 * cost / nullif(shortest_cost, 0)) as bigint)) as bigint)
        / nullif(count(cost / nullif(shortest_cost, 0)), 0) / 1e9 as stretch_cost_mean,
    max(cost / nullif(shortest_cost, 0)) as stretch_cost_max
from arrivals
