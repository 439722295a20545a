-- A row is an RA in the captures, by issuer and sequence number.
select issuer, seq, min(epoch) as epoch, max(predicate) as predicate,
    min(time_ns) as first_ns,
    max(time_ns) as last_ns,
    count(distinct case when kind = 'host' and direction = 'to_router' then node end) as routers,
    count(*) filter (where kind = 'link') as frames,
    cast(coalesce(sum(length) filter (where kind = 'link'), 0) as bigint) as bytes
from frames
where type = 'RA' and undecodable is null and time_ns is not null
group by issuer, seq
