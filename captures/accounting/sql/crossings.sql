-- A row is a message on a link in a direction, with the epoch of its frames.
-- `on_tree`: the receiver accepts frames of the source from `from_node`; null: no TABLE of that epoch was captured.
with counted as (
    select issuer as source, seq, epoch, link, from_node, to_node, min(time_ns) as first_ns
    from frames
    where kind = 'link' and type = 'MSG' and undecodable is null
    group by issuer, seq, epoch, link, from_node, to_node
)
select counted.source, seq, counted.epoch, link, from_node, to_node, first_ns, from_node = parent as on_tree
from counted left join trees
    on trees.epoch = counted.epoch and trees.node = to_node and trees.source = counted.source
