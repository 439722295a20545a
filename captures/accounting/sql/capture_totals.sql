-- A row is a capture, direction and frame type: `traffic` without its bins.
select capture, kind, link, node, direction, from_node, to_node, type,
    cast(sum(frames) as bigint) as frames,
    cast(sum(bytes) as bigint) as bytes,
    cast(sum(undecodable) as bigint) as undecodable,
    min(first_ns) as first_ns,
    max(last_ns) as last_ns,
    cast(sum(whole) as bigint) as whole,
    cast(sum(own) as bigint) as own
from traffic
group by capture, kind, link, node, direction, from_node, to_node, type
