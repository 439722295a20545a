-- A row is a predicate that an application had in force, with the deliveries that it brought: a delivery counts
-- for the predicate of its application that was confirmed last.
with following as (
    select node, app, predicate, filters, t_ns, place,
        lead(t_ns) over (partition by node, app order by t_ns, place) as next_ns
    from declared
), in_force as (
    select node, app, predicate, filters, t_ns, place, next_ns,
        coalesce(next_ns, greatest($last_ns, t_ns)) as until_ns
    from following
    where filters > 0
), counted as (
    select in_force.node, in_force.app, predicate, filters, in_force.t_ns, until_ns,
        count(delivered.t_ns) as deliveries
    from in_force left join delivered
        on delivered.node = in_force.node and delivered.app = in_force.app
        and delivered.t_ns >= in_force.t_ns and delivered.t_ns < coalesce(next_ns, until_ns + 1)
    group by in_force.node, in_force.app, predicate, filters, in_force.t_ns, place, until_ns
)
select node, app, predicate, filters, experiment_s(t_ns) as from_s, experiment_s(until_ns) as until_s, deliveries
from counted
