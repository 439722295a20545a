-- The only row has the keys of the summary about messages and applications.
select
    count(*) filter (where expected) as deliveries_expected,
    count(*) filter (where deliveries > 0) as deliveries_made,
    count(*) filter (where lost) as deliveries_lost,
    count(*) filter (where missed) as false_negatives,
    count(*) filter (where missed and decided and sent_ns >= end_ns) as false_negatives_after_convergence,
    count(*) filter (where expected and decided and sent_ns >= end_ns) as deliveries_decided,
    count(*) filter (where spurious) as spurious_deliveries,
    count(*) filter (where not decided) as deliveries_undecided,
    cast(coalesce(sum(greatest(deliveries - 1, 0)), 0) as bigint) as duplicate_deliveries
from outcomes cross join convergence
