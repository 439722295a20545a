-- A row is a message and an application that it was delivered to, with the delay and the path to its node.
-- A delivery at the sending node has a path of 0 links.
select outcomes.source, outcomes.seq, outcomes.node, app,
    experiment_s(sent_ns) as sent_s, (delivered_ns - sent_ns) / 1e9 as delay_wall_s,
    deliveries as times, expected, decided,
    case when outcomes.node = outcomes.source then 0 else hops end as hops,
    case when outcomes.node = outcomes.source then 0 else cost end as cost,
    case when outcomes.node = outcomes.source then 0 else shortest_hops end as shortest_hops,
    case when outcomes.node = outcomes.source then 0 else shortest_cost end as shortest_cost
from outcomes left join arrivals
    on arrivals.source = outcomes.source and arrivals.seq = outcomes.seq and arrivals.node = outcomes.node
where deliveries > 0
