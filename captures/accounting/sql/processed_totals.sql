-- The only row has the keys of the summary about messages at routers.
select count(*) filter (where false_positive) as false_positives,
    count(*) as messages_received_by_routers,
    count(*) filter (where false_positive and from_network) as false_positives_from_network,
    count(*) filter (where from_network) as messages_received_from_network
from processed
