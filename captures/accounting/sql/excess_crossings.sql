-- The only row has the crossings beyond the minimal tree of the messages sent after convergence on whose receivers
-- the oracle decides.
with undecided as (
    select distinct source, seq from oracle where not decided
), settled as (
    select source, seq from sent cross join convergence where sent_ns >= end_ns
)
select cast(coalesce(sum(cbcb - minimal), 0) as bigint) as excess_crossings
from savings
join settled on settled.source = savings.source and settled.seq = savings.seq
left join undecided on undecided.source = savings.source and undecided.seq = savings.seq
where undecided.seq is null
