-- A row is a link and direction of the broadcast tree of a source in an epoch, as far as a path joins it to the source,
-- or (`dropped`) a link at whose end a router drops the frames of the source (reverse-path forwarding).
with recursive reached as (
    select distinct source, epoch, cast(source as int) as node, cast(null as int) as parent from trees
    union all
    select trees.source, trees.epoch, trees.node, trees.parent
    from reached join trees
        on trees.source = reached.source and trees.epoch = reached.epoch and trees.parent = reached.node
    where trees.node <> trees.source
)
select source, epoch, parent as from_node, node as to_node, false as dropped from reached where parent is not null
union all
select source, epoch, node, unnest(off_tree), true from trees
