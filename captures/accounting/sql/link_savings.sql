-- A row is a link and direction: the columns of `savings`, over all messages.
with counted as (
    select link, from_node, to_node, count(*) as cbcb from crossed group by link, from_node, to_node
)
select link, from_node, to_node, coalesce(cbcb, 0) as cbcb, broadcast, unicast, minimal
from link_baselines left join counted using (link, from_node, to_node)
