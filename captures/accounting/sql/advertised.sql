-- A row is a predicate that RAs or URs carried over links, with their cost. The fragments of a frame count once.
select type, predicate, count(distinct issuer) as issuers, count(*) as crossings,
    cast(sum(total_length) as bigint) as body_bytes
from frames
where kind = 'link' and type in ('RA', 'UR') and fragment in ('whole', 'completing') and undecodable is null
group by type, predicate
