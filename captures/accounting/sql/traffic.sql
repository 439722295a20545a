-- A row is a capture, direction, frame type and time bin: the base of all totals of frames.
-- `whole` counts the frames that bring a CBCB frame to its end; `own`, of them, those that the node of a host
-- link issued.
select capture, kind, link, node, direction, from_node, to_node, coalesce(type, 'undecodable') as type,
    floor(time_s / $bin_s) * $bin_s as bin_s,
    count(*) as frames,
    cast(sum(length) as bigint) as bytes,
    count(undecodable) as undecodable,
    min(time_ns) as first_ns,
    max(time_ns) as last_ns,
    count(*) filter (where undecodable is null and fragment <> 'partial') as whole,
    count(*) filter (where undecodable is null and fragment <> 'partial' and issuer = node) as own
from frames
group by capture, kind, link, node, direction, from_node, to_node,
    coalesce(type, 'undecodable'), floor(time_s / $bin_s) * $bin_s
