-- A row is a point: the share of expected deliveries that were missed in the window before it (paper, figure 11).
-- Points lie at the ends of steps in which a message was sent.
with events as (
    select cast(floor(experiment_s(sent_ns) / $missed_step_s) as bigint) as step, missed
    from outcomes
    where expected and sent_ns is not null
), steps as (
    select step, count(*) filter (where missed) as missed, count(*) as expected from events group by step
), sums as (
    select step,
        sum(missed) over (order by step range between $missed_steps preceding and current row) as missed,
        sum(expected) over (order by step range between $missed_steps preceding and current row) as expected
    from steps
)
select (step + 1) * $missed_step_s as t_s, missed / expected as fraction from sums order by t_s
