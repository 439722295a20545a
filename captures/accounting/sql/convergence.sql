-- The only row is the end of the first wave of RAs: the RAs that answer the opening predicates.
-- The wave has an RA of each node of `opening`: the first that no capture shows before the request. An RA that was
-- on its way by then answers an earlier event.
-- `last_ns`: the last frame of the wave. `end_ns`: messages count as sent after convergence from then on; where no
-- RA was captured, from the confirmation of the last opening predicate, and without any, from second 0.
-- `seconds`: wall seconds from the first request to the last frame.
with answers as (
    select last_ns, row_number() over (partition by issuer order by first_ns, seq) as place
    from waves join opening on opening.node = waves.issuer
    where first_ns >= requested_ns
), wave as (
    select max(last_ns) as last_ns from answers where place = 1
), requests as (
    select min(requested_ns) as requested_ns, max(confirmed_ns) as confirmed_ns from opening
)
select last_ns, coalesce(last_ns, confirmed_ns, $start_ns) as end_ns,
    (last_ns - requested_ns) / 1e9 as convergence_s
from wave cross join requests
