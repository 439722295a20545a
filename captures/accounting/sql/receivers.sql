-- A row is a message of `message_trees` and a router with an application that expects it, decided or not.
select distinct message_trees.source, message_trees.seq, epoch, node
from message_trees
join oracle on oracle.source = message_trees.source and oracle.seq = message_trees.seq
where expected
