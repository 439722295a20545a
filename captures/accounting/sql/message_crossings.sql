-- The only row has the sums of `savings`.
select count(*) as messages,
    cast(coalesce(sum(cbcb), 0) as bigint) as cbcb,
    cast(coalesce(sum(broadcast), 0) as bigint) as broadcast,
    cast(coalesce(sum(unicast), 0) as bigint) as unicast,
    cast(coalesce(sum(minimal), 0) as bigint) as minimal
from savings
