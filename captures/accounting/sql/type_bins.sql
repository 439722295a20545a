-- A row is a frame type and time bin, over all links between routers.
with summed as (
    select type, bin_s, cast(sum(frames) as bigint) as frames, cast(sum(bytes) as bigint) as bytes
    from link_bins
    group by type, bin_s
)
select type, bin_s, frames, bytes, frames / $bin_s as frames_per_s, bytes / $bin_s as bytes_per_s
from summed
