-- A row is a link, direction, frame type and time bin: the part of `traffic` that crossed links.
select link, from_node, to_node, type, bin_s, frames, bytes,
    frames / $bin_s as frames_per_s, bytes / $bin_s as bytes_per_s
from traffic
where kind = 'link'
