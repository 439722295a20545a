-- A row is a message: its crossings of links in the captures, and those that other ways of routing would make.
-- - broadcast: to every router, along the broadcast tree of the source (protocol paper, section 2), with the crossings
--   that end at a router which drops them;
-- - unicast: a copy to each router with an application that expects the message, along the path of least cost;
-- - minimal: the part of the broadcast tree that leads to these routers, and no more. No routing over the same trees
--   that delivers to all of them crosses fewer links.
with flooded as (
    select source, epoch, count(*) as broadcast from tree_links group by source, epoch
), lengths as (
    select source, receiver, count(*) as hops from unicast_links group by source, receiver
), copied as (
    select receivers.source, seq, count(*) as nodes, cast(sum(hops) as bigint) as unicast
    from receivers left join lengths on lengths.source = receivers.source and receiver = node
    group by receivers.source, seq
), needed as (
    select source, seq, count(*) as minimal from minimal_links group by source, seq
)
select source, seq, coalesce(nodes, 0) as receivers, coalesce(crossings, 0) as cbcb,
    coalesce(broadcast, 0) as broadcast, coalesce(unicast, 0) as unicast, coalesce(minimal, 0) as minimal
from message_trees
left join flooded using (source, epoch)
left join seen using (source, seq)
left join copied using (source, seq)
left join needed using (source, seq)
