-- A row is a message on links, with the first epoch of its frames and the links that it crossed.
with counted as (
    select source, seq, count(*) as crossings from crossed group by source, seq
), first_epochs as (
    select source, seq, min(epoch) as epoch from crossings group by source, seq
)
select first_epochs.source, first_epochs.seq, epoch, crossings
from first_epochs join counted on counted.source = first_epochs.source and counted.seq = first_epochs.seq
