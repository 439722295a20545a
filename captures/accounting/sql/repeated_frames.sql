-- A row is a MSG frame that crossed a link more than once in one direction: evidence of a loop. Of a scheme with copies,
-- the hop limits differ as well.
select link, from_node, issuer as source, seq, fragment_index, count(*) as crossings
from frames
where kind = 'link' and type = 'MSG'
group by link, from_node, issuer, seq, fragment_index
having count(*) > 1 and (not $copies or count(distinct hop_limit) > 1)
