-- A row is a message and a router that it reached over links, with the path that it took and the shortest one.
-- A path is followed from the source, router by router; a row without one is on a loop, or behind a hop that no
-- capture shows.
with recursive paths as (
    select source, seq, node, 1 as hops, link_cost as cost from arriving where from_node = source
    union all
    select arriving.source, arriving.seq, arriving.node, hops + 1, cost + link_cost
    from paths join arriving
        on arriving.source = paths.source and arriving.seq = paths.seq and arriving.from_node = paths.node
)
select arriving.source, arriving.node, arriving.seq, from_node, link, arrived_ns, hops, cost,
    shortest_hops, shortest_cost
from arriving
left join paths
    on paths.source = arriving.source and paths.seq = arriving.seq and paths.node = arriving.node
left join shortest_paths
    on shortest_paths.source = arriving.source and shortest_paths.node = arriving.node
