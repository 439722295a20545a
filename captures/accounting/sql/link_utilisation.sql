-- A row is a captured link, direction and time bin, whether the direction was idle or not.
-- Bandwidth is per wall second: the time scale does not touch it.
with captured_links as (
    select link, u, v from links join files using (link) where kind = 'link'
), ways as (
    select link, u as from_node, v as to_node from captured_links
    union all
    select link, v, u from captured_links
), bins as (
    select link, from_node, to_node, number * $bin_s as bin_s from ways cross join numbers where number < $bins
), carried as (
    select link, from_node, to_node, bin_s, cast(sum(bytes) as bigint) as bytes
    from link_bins
    where from_node is not null
    group by link, from_node, to_node, bin_s
), summed as (
    select link, from_node, to_node, bin_s, coalesce(bytes, 0) as bytes
    from carried full join bins using (link, from_node, to_node, bin_s)
), rates as (
    select link, from_node, to_node, bin_s, bytes, bytes * 8 / bin_wall_s(bin_s) as bits_per_wall_s
    from summed
)
select link, from_node, to_node, bin_s, bytes, bits_per_wall_s,
    bits_per_wall_s / (bandwidth_mbps * 1e6) as utilisation
from rates join links using (link)
