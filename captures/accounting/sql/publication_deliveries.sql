-- A row is a delivery of a publication to a subscription, with where the home had it.
select source, seq, node, app, subscription, round, experiment_s(t_ns) as t_s, age_s, whence
from service
where event = 'deliver'
