-- A row is a change of the index of a router that references a publication; none without `record_caches`.
select source, seq, node, experiment_s(t_ns) as t_s, before, after, cause as transition
from service
where event = 'cache'
order by t_ns, node, source, seq, before nulls first, after nulls first, cause
