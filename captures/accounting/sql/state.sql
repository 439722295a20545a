-- The only row has the sums of `schemes` over all routers, as PART_UNIT.
with sums as (
    select concat(part, '_', unit) as name, cast(sum(value) as bigint) as value from schemes group by part, unit
)
select
    coalesce(max(value) filter (where name = 'forwarding_filters'), 0) as forwarding_filters,
    coalesce(max(value) filter (where name = 'forwarding_constraints'), 0) as forwarding_constraints,
    coalesce(max(value) filter (where name = 'forwarding_bytes'), 0) as forwarding_bytes,
    coalesce(max(value) filter (where name = 'forwarding_senders_filters'), 0) as forwarding_senders_filters,
    coalesce(max(value) filter (where name = 'forwarding_senders_constraints'), 0) as forwarding_senders_constraints,
    coalesce(max(value) filter (where name = 'forwarding_senders_bytes'), 0) as forwarding_senders_bytes,
    coalesce(max(value) filter (where name = 'local_filters'), 0) as local_filters,
    coalesce(max(value) filter (where name = 'local_constraints'), 0) as local_constraints,
    coalesce(max(value) filter (where name = 'local_bytes'), 0) as local_bytes,
    coalesce(max(value) filter (where name = 'rib_filters'), 0) as rib_filters,
    coalesce(max(value) filter (where name = 'rib_constraints'), 0) as rib_constraints,
    coalesce(max(value) filter (where name = 'rib_bytes'), 0) as rib_bytes,
    coalesce(max(value) filter (where name = 'broadcast_bytes'), 0) as broadcast_bytes,
    coalesce(max(value) filter (where name = 'unicast_bits'), 0) as unicast_bits,
    coalesce(max(value) filter (where name = 'engine_bytes'), 0) as engine_bytes
from sums
