-- A row is a source, a receiver of some of its messages, and a link and direction of the path of least cost to it; of
-- parents with equal cost, the lowest number is the parent.
with recursive costs as (
    select source, node, shortest_cost from shortest_paths
    union all
    select distinct source, source, 0 from shortest_paths
), ways as (
    select u as from_node, v as to_node, cost from links
    union all
    select v, u, cost from links
), cheapest as (
    select near.source, min(from_node) as from_node, to_node
    from ways
    join costs as near on near.node = from_node
    join costs as far on far.source = near.source and far.node = to_node
    where far.shortest_cost = near.shortest_cost + cost
    group by near.source, to_node
), path_links as (
    select receivers.source, node as receiver, from_node, to_node
    from receivers join cheapest on cheapest.source = receivers.source and to_node = node
    union
    select path_links.source, receiver, cheapest.from_node, cheapest.to_node
    from path_links join cheapest
        on cheapest.source = path_links.source and cheapest.to_node = path_links.from_node
)
select source, receiver, from_node, to_node from path_links
