-- The only row has the crossings of links by messages in a private network, by what they lead to: a member that kept the
-- message, or else a member that discarded it for a cause, or (`no_delivery`) no member that got it.
with recursive got as (
    select source, seq, node, 0 as place from delivered where $private
    union all
    select source, seq, node, case discard_cause when 'operator' then 1 when 'hash' then 2 else 3 end
    from discarded
    where $private
), path_links as (
    select seen.source, seen.seq, seen.epoch, from_node, to_node, place
    from got
    join seen on seen.source = got.source and seen.seq = got.seq
    join tree_links on tree_links.source = seen.source and tree_links.epoch = seen.epoch and to_node = node
    where not dropped
    union
    select path_links.source, seq, path_links.epoch, tree_links.from_node, tree_links.to_node, place
    from path_links join tree_links
        on tree_links.source = path_links.source and tree_links.epoch = path_links.epoch
        and tree_links.to_node = path_links.from_node
    where not dropped
), placed as (
    select min(place) as place from path_links group by source, seq, to_node
)
select count(*) filter (where place = 0) as kept, count(*) filter (where place = 1) as operator,
    count(*) filter (where place = 2) as hash, count(*) filter (where place = 3) as other,
    (select cast(coalesce(sum(crossings), 0) as bigint) from seen) - count(*) as no_delivery
from placed
