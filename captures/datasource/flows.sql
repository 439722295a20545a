-- A row: one flow, the IP packets between two addresses with two ports (of TCP, UDP, SCTP, ...) and one protocol,
-- whatever their direction. The source is the sender of the first packet. Packets without ports, such as ICMP and
-- the later fragments of IP, make flows with null ports.
--   ip_src, src_port, ip_dst, dst_port, ip_protocol
--   packets, bytes: in both directions; bytes on the wire
--   packets_back, bytes_back: those of the destination alone
--   first_ns, last_ns: times of the first and the last packet, ns since 1970 UTC
--   tcp_flags, tcp_flags_back: all flags of TCP that the source, and the destination, has set; null: no TCP
with
ends as (
    select
        *,
        concat(ip_src, ' ', coalesce(src_port, -1)) as sender,
        concat(ip_dst, ' ', coalesce(dst_port, -1)) as receiver
    from packets
    where ip_src is not null and ip_dst is not null
),
ordered as (
    select
        *,
        least(sender, receiver) as low,
        greatest(sender, receiver) as high,
        row_number() over (
            partition by least(sender, receiver), greatest(sender, receiver), ip_protocol
            order by time_ns nulls last, file, packet
        ) as place
    from ends
),
firsts as (
    select low, high, ip_protocol, sender, ip_src, src_port, ip_dst, dst_port
    from ordered
    where place = 1
)
select
    firsts.ip_src,
    firsts.src_port,
    firsts.ip_dst,
    firsts.dst_port,
    firsts.ip_protocol,
    count(*) as packets,
    cast(sum(length) as bigint) as bytes,
    count(case when ordered.sender <> firsts.sender then 1 end) as packets_back,
    cast(sum(case when ordered.sender <> firsts.sender then length else 0 end) as bigint) as bytes_back,
    min(time_ns) as first_ns,
    max(time_ns) as last_ns,
    bit_or(case when ordered.sender = firsts.sender then tcp_flags end) as tcp_flags,
    bit_or(case when ordered.sender <> firsts.sender then tcp_flags end) as tcp_flags_back
from ordered
join firsts
    on firsts.low = ordered.low
    and firsts.high = ordered.high
    and coalesce(firsts.ip_protocol, -1) = coalesce(ordered.ip_protocol, -1)
group by
    firsts.ip_src, firsts.src_port, firsts.ip_dst, firsts.dst_port, firsts.ip_protocol
order by
    first_ns nulls last, firsts.ip_src, firsts.src_port, firsts.ip_dst, firsts.dst_port, firsts.ip_protocol
