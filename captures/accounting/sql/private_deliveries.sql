-- A row is a message that a router delivered to a member of a private network; none of a run without privacy.
with read as (
    select source, seq, node, app, t_ns, cast(null as string) as discard_cause from delivered where $private
    union all
    select source, seq, node, app, t_ns, discard_cause from discarded where $private
)
select source, seq, node, app, experiment_s(t_ns) as t_s, discard_cause
from read
order by t_ns, node, app, source, seq, discard_cause nulls first
