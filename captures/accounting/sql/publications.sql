-- A row is a publication that was uploaded, with the homes that delivered it.
with got as (
    select source, seq, count(*) as deliveries, count(*) filter (where whence = 'remote') as deliveries_remote,
        count(distinct node) as homes
    from service
    where event = 'deliver'
    group by source, seq
)
select service.source, service.seq, incarnation(service.seq) as incarnation,
    number(service.seq) as number, experiment_s(t_ns) as uploaded_s, message,
    coalesce(deliveries, 0) as deliveries, coalesce(deliveries_remote, 0) as deliveries_remote,
    coalesce(homes, 0) as homes
from service left join got on got.source = service.source and got.seq = service.seq
where event = 'upload'
