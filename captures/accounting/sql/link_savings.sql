-- A row is a link and direction: the columns of `savings`, over all messages.
with directed as (
    select link, u as from_node, v as to_node from links
    union all
    select link, v, u from links
), counted as (
    select link, from_node, to_node, count(*) as cbcb from crossed group by link, from_node, to_node
), sendings as (
    select source, epoch, count(*) as messages from message_trees group by source, epoch
), flooded as (
    select from_node, to_node, cast(sum(messages) as bigint) as broadcast
    from tree_links join sendings using (source, epoch)
    group by from_node, to_node
), copies as (
    select source, node as receiver, count(*) as messages from receivers group by source, node
), copied as (
    select from_node, to_node, cast(sum(messages) as bigint) as unicast
    from unicast_links join copies using (source, receiver)
    group by from_node, to_node
), needed as (
    select from_node, to_node, count(*) as minimal from minimal_links group by from_node, to_node
)
select link, from_node, to_node, coalesce(cbcb, 0) as cbcb, coalesce(broadcast, 0) as broadcast,
    coalesce(unicast, 0) as unicast, coalesce(minimal, 0) as minimal
from directed
left join counted using (link, from_node, to_node)
left join flooded using (from_node, to_node)
left join copied using (from_node, to_node)
left join needed using (from_node, to_node)
