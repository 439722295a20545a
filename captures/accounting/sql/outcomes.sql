-- A row is a message and an application that should have received it, may have, or has.
-- `deliveries`: their number. `lost`: every delivery found the connection of the application broken.
-- `delivered_ns`: the first delivery. `missed`: expected, and neither delivered nor lost. `spurious`: delivered,
-- decided and not expected.
with attempts as (
    select source, seq, node, app, t_ns from delivered
    union all
    select source, seq, node, app, null from lost
), found as (
    select source, seq, node, app,
        count(t_ns) as deliveries, min(t_ns) as delivered_ns, count(t_ns) = 0 as lost
    from attempts
    group by source, seq, node, app
), judged as (
    select source, seq, node, app, oracle.sent_ns as oracle_ns, expected, decided, deliveries, delivered_ns, lost
    from oracle full join found using (source, seq, node, app)
)
select source, seq, node, app, coalesce(oracle_ns, sent.sent_ns) as sent_ns,
    coalesce(expected, false) as expected,
    coalesce(decided, true) as decided,
    coalesce(deliveries, 0) as deliveries,
    delivered_ns,
    coalesce(lost, false) as lost,
    coalesce(expected, false) and lost is null as missed,
    coalesce(deliveries, 0) > 0 and coalesce(decided, true) and not coalesce(expected, false) as spurious
from judged left join sent using (source, seq)
