-- A row is a change of the predicate of an application, with its experiment second.
select node, app, experiment_s(t_ns) as t_s, t_ns, requested_ns, predicate, filters, issuer, seq from changes
