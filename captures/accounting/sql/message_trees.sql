-- A row is a message sent of which the broadcast tree is known, with the epoch of the tree: that of its frames on links;
-- without any, the last epoch that was announced before the sending.
with announced as (
    select source, epoch, min(told_ns) as announced_ns from trees group by source, epoch
), dated as (
    select sent.source, sent.seq, coalesce(min(seen.epoch), max(announced.epoch)) as epoch
    from sent
    left join seen on seen.source = sent.source and seen.seq = sent.seq
    left join announced on announced.source = sent.source and announced_ns <= sent_ns
    group by sent.source, sent.seq
)
select dated.source, seq, dated.epoch
from dated join announced on announced.source = dated.source and announced.epoch = dated.epoch
