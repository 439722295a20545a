-- A row is an epoch that called for RAs, and when all of them had crossed the network.
-- An epoch calls for an RA of each node that had advertised in an earlier epoch: its first RA in the epoch.
with placed as (
    select epoch, last_ns, epoch > min(epoch) over (partition by issuer) as later,
        row_number() over (partition by issuer, epoch order by first_ns, seq) as place
    from waves
)
select epoch, max(last_ns) as last_ns from placed where later and place = 1 group by epoch
