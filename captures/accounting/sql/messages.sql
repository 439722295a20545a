-- A row is a message that an application sent.
with counted as (
    select source, seq,
        count(*) filter (where expected) as deliveries_expected,
        count(*) filter (where deliveries > 0) as delivered,
        count(*) filter (where missed) as missed,
        count(*) filter (where missed and decided) as missed_decided,
        count(*) filter (where spurious) as spurious,
        cast(sum(greatest(deliveries - 1, 0)) as bigint) as duplicates
    from outcomes
    group by source, seq
)
select source, seq, incarnation(seq) as incarnation, number(seq) as number,
    experiment_s(sent_ns) as sent_s, message,
    coalesce(deliveries_expected, 0) as deliveries_expected,
    coalesce(delivered, 0) as delivered,
    coalesce(missed, 0) as missed,
    coalesce(missed_decided, 0) as missed_decided,
    coalesce(spurious, 0) as spurious,
    coalesce(duplicates, 0) as duplicates
from sent left join counted using (source, seq)
