-- A row is a message on a link in a direction, whatever the epochs of its frames.
select distinct source, seq, link, from_node, to_node from crossings
