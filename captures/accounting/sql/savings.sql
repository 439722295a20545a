-- A row is a message: its crossings of links in the captures, and those that other ways of routing would make.
select source, seq, receivers, coalesce(crossings, 0) as cbcb, broadcast, unicast, minimal
from baselines left join seen using (source, seq)
