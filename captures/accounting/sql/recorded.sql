-- A row is the sending of a message or publication by the record of its router, or a delivery: it has either `sent_ns`
-- and `attributes`, or `delivered_ns`, and `received_ns` of another node where no frame can have escaped the captures.
-- A router writes the record of an upload after it has sent the publication, in the same turn or within a second.
with got as (
    select source, seq, node, t_ns from delivered
    union all
    select source, seq, node, t_ns from discarded
    union all
    select source, seq, node, t_ns from service where event = 'deliver'
)
select source, seq, sent_ns, cast(null as bigint) as delivered_ns, cast(null as bigint) as received_ns, attributes
from sent
union all
select source, seq, t_ns - 1000000000, null, null, attributes from service where event = 'upload'
union all
select source, seq, null, t_ns, case when node <> source and $unbroken then t_ns end, null from got
