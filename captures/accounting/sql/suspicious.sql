-- A row is a message that no router recorded, or whose evidence contradicts itself; of each kind, the first few, with
-- the number of all (`alike`).
-- A message is that of an application, or a publication of the attention-limited service. Its content is that of the
-- record of its router and of each captured frame; the frames of a private network have none that can be read.
-- `frames`: captured, without those that its router had no time to record (`unwritten`).
with captured_messages as (
    select type = 'MSG' as exhaustive,
        case when type = 'MSG' then issuer else attention.source end as source,
        case when type = 'MSG' then seq else attention.seq end as seq,
        case when type = 'MSG' then epoch end as epoch,
        time_ns, attributes
    from frames
    where type in ('MSG', 'PUB', 'FLUSH') and undecodable is null
), evidence as (
    select captured_messages.source, seq, epoch, time_ns, md5(to_json(attributes)) as content,
        attributes is not null as readable,
        case when unwritten.node is null then 1 end as recordable,
        cast(null as bigint) as sent_ns, cast(null as bigint) as delivered_ns, cast(null as bigint) as received_ns
    from captured_messages left join unwritten
        on unwritten.node = captured_messages.source and unwritten.exhaustive = captured_messages.exhaustive
        and time_ns between since_ns and until_ns
    union all
    select source, seq, null, null, md5(to_json(attributes)), attributes is not null, null,
        sent_ns, delivered_ns, received_ns
    from recorded
), grouped as (
    select source, seq, count(recordable) as frames,
        coalesce(min(content) filter (where readable) <> max(content) filter (where readable), false)
            as contents_differ,
        coalesce(min(epoch) <> max(epoch), false) as epochs_differ,
        min(sent_ns) as sent_ns, min(time_ns) as captured_ns,
        min(delivered_ns) as delivered_ns, min(received_ns) as received_ns
    from evidence
    where source is not null
    group by source, seq
), found as (
    select source, seq, frames, contents_differ, epochs_differ, sent_ns, captured_ns, delivered_ns, received_ns,
        sent_ns is null and frames > 0 as unrecorded
    from grouped
), numbered as (
    select source, seq, frames, contents_differ, epochs_differ, sent_ns, captured_ns, delivered_ns, received_ns,
        row_number() over (partition by unrecorded order by source, seq) as place,
        count(*) over (partition by unrecorded) as alike
    from found
    where unrecorded or contents_differ or epochs_differ
        or captured_ns < sent_ns - $resolution_ns or delivered_ns < sent_ns - $resolution_ns
        or received_ns < captured_ns - $resolution_ns
)
select source, seq, frames, contents_differ, epochs_differ, sent_ns, captured_ns, delivered_ns, received_ns, alike
from numbered
where place <= $named
order by source, seq
