-- A row is a message and a link and direction of the part of its broadcast tree that leads to its receivers.
with recursive path_links as (
    select receivers.source, seq, receivers.epoch, from_node, to_node
    from receivers join tree_links
        on tree_links.source = receivers.source and tree_links.epoch = receivers.epoch and to_node = node
    where not dropped
    union
    select path_links.source, seq, path_links.epoch, tree_links.from_node, tree_links.to_node
    from path_links join tree_links
        on tree_links.source = path_links.source and tree_links.epoch = path_links.epoch
        and tree_links.to_node = path_links.from_node
    where not dropped
)
select source, seq, from_node, to_node from path_links
