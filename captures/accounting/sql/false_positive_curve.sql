-- A row is a point: the share of false positives among the messages that routers processed in the window before it
-- (paper, figure 12). Points lie at the ends of steps in which a router processed a message.
with events as (
    select cast(floor(t_s / $step_s) as bigint) as step, false_positive from processed where t_s is not null
), steps as (
    select step, count(*) filter (where false_positive) as positives, count(*) as messages
    from events
    group by step
), sums as (
    select step,
        sum(positives) over (order by step range between $steps preceding and current row) as positives,
        sum(messages) over (order by step range between $steps preceding and current row) as messages
    from steps
)
select (step + 1) * $step_s as t_s, positives / messages as fraction from sums order by t_s
