-- A row is a capture: what its file holds, the capture's own counters, and how the file ends.
with contents as (
    select capture,
        cast(sum(frames) as bigint) as frames,
        cast(sum(bytes) as bigint) as bytes,
        cast(sum(undecodable) as bigint) as frames_undecodable,
        min(first_ns) as first_ns,
        max(last_ns) as last_ns
    from capture_totals
    group by capture
)
select files.*, coalesce(frames, 0) as frames, coalesce(bytes, 0) as bytes,
    coalesce(frames_undecodable, 0) as frames_undecodable,
    experiment_s(first_ns) as first_s, experiment_s(last_ns) as last_s
from files left join contents using (capture)
