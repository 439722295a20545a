-- A row is a message, a router that sent it over a link and the router that it reached, by the captures of host
-- links. Of the frames of a message, the first fragment alone tells when it left and arrived.
with sightings as (
    select node, direction, from_node, issuer as source, seq, epoch, fragment_index, time_ns
    from frames
    where kind = 'host' and type = 'MSG' and undecodable is null and time_ns is not null
), arrived as (
    select source, seq, from_node, node as to_node, min(time_ns) as arrived_ns
    from sightings
    where direction = 'to_router' and fragment_index = 0 and from_node is not null
    group by source, seq, from_node, node
), departed as (
    select source, seq, node as from_node, time_ns as out_ns
    from sightings
    where direction = 'from_router' and fragment_index = 0
), matched as (
    select arrived.source, arrived.seq, arrived.from_node, to_node, arrived_ns, max(out_ns) as departed_ns
    from arrived left join departed
        on departed.source = arrived.source and departed.seq = arrived.seq
        and departed.from_node = arrived.from_node and out_ns <= arrived_ns
    group by arrived.source, arrived.seq, arrived.from_node, to_node, arrived_ns
), taken as (
    select sightings.source, sightings.seq, sightings.node as at_node, time_ns
    from sightings left join trees
        on trees.epoch = sightings.epoch and trees.node = sightings.node and trees.source = sightings.source
    where direction = 'to_router' and coalesce(from_node = parent, true)
    union all
    select source, seq, source, sent_ns from sent
), handled as (
    select matched.source, matched.seq, matched.from_node, to_node, departed_ns, arrived_ns,
        max(time_ns) as taken_ns
    from matched left join taken
        on taken.source = matched.source and taken.seq = matched.seq
        and at_node = from_node and time_ns <= departed_ns
    group by matched.source, matched.seq, matched.from_node, to_node, departed_ns, arrived_ns
), ways as (
    select link, u as sender, v as receiver from links
    union all
    select link, v, u from links
)
select source, seq, from_node, to_node, link, departed_ns, arrived_ns, experiment_s(arrived_ns) as arrived_s,
    (departed_ns - taken_ns) / 1e9 as handling_wall_s, (arrived_ns - departed_ns) / 1e9 as latency_wall_s
from handled left join ways on sender = from_node and receiver = to_node
