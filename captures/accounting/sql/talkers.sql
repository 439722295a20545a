-- A row is a router and frame type, by the captures of the host links.
select node, type,
    cast(coalesce(sum(frames) filter (where direction = 'from_router'), 0) as bigint) as frames_sent,
    cast(coalesce(sum(bytes) filter (where direction = 'from_router'), 0) as bigint) as bytes_sent,
    cast(coalesce(sum(frames) filter (where direction = 'to_router'), 0) as bigint) as frames_received,
    cast(coalesce(sum(bytes) filter (where direction = 'to_router'), 0) as bigint) as bytes_received
from capture_totals
where kind = 'host'
group by node, type
