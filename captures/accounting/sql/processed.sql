-- A row is a message at a router, from a neighbour or from its own applications (paper, figure 12); none unless the
-- host links of all routers were captured. The fragments of a message count once.
-- `false_positive`: the router neither forwarded the message to a neighbour nor delivered it to an application.
with host as (
    select node, issuer as source, seq, time_ns, direction
    from frames
    where $all_hosts and kind = 'host' and type = 'MSG' and undecodable is null
), received as (
    select node, source, seq, min(time_ns) as t_ns, true as from_network
    from host
    where direction = 'to_router'
    group by node, source, seq
    union all
    select cast(source as int), source, seq, sent_ns, false from sent where $all_hosts
), used as (
    select node, source, seq from host where direction = 'from_router'
    union
    select node, source, seq from delivered
    union
    select node, source, seq from lost
)
select received.node, received.source, received.seq, experiment_s(t_ns) as t_s, t_ns, from_network,
    used.node is null as false_positive
from received left join used
    on used.node = received.node and used.source = received.source and used.seq = received.seq
