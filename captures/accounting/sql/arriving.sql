-- A row is a message and a router that it reached over a link: of several links, that on the tree of the source,
-- else the first.
with ranked as (
    select source, seq, to_node, from_node, link, first_ns,
        row_number() over (
            partition by source, seq, to_node
            order by not coalesce(on_tree, false), first_ns nulls last, from_node, link
        ) as place
    from crossings
    where to_node is not null and to_node <> source
)
select source, seq, to_node as node, from_node, ranked.link, first_ns as arrived_ns, cost as link_cost
from ranked join links on links.link = ranked.link
where place = 1
