-- A row is a link, direction and frame type.
select link, from_node, to_node, type,
    cast(sum(frames) as bigint) as frames, cast(sum(bytes) as bigint) as bytes
from capture_totals
where kind = 'link'
group by link, from_node, to_node, type
