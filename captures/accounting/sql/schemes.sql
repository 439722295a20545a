-- A row is a router, part of its state and unit.
-- Broadcast state is the last TABLE that came to the router.
with broadcast as (
    select node, cast(max_by(total_length, epoch) as bigint) as value
    from frames
    where kind = 'host' and direction = 'to_router' and type = 'TABLE' and undecodable is null
    group by node
)
select node, $scheme as scheme, part, unit, value from held
union all
select node, $scheme, 'broadcast', 'bytes', value from broadcast
