-- A row is a point: the frames on links in the window before it (paper, figures 13 and 14).
-- Points lie at the ends of the steps from the first frame to the last, so that silence shows as zeros. Of a silence
-- that is longer than the window, as after a clock was set, only the points up to the first zero and the last point
-- are there.
with events as (
    select cast(floor(time_s / $step_s) as bigint) as step, type
    from frames
    where kind = 'link' and type in ('MSG', 'RA', 'SR', 'UR') and time_s is not null
), counted as (
    select step,
        count(*) filter (where type = 'MSG') as msg,
        count(*) filter (where type = 'RA') as ra,
        count(*) filter (where type in ('SR', 'UR')) as pull
    from events
    group by step
), spans as (
    select step, coalesce(lead(step) over (order by step) - 1, step) as last_step from counted
), every_step as (
    select distinct case when number = $steps + 2 then last_step else least(step + number, last_step) end as step
    from spans cross join numbers
    where number <= $steps + 2
), filled as (
    select step, coalesce(msg, 0) as msg, coalesce(ra, 0) as ra, coalesce(pull, 0) as pull
    from every_step left join counted using (step)
)
select (step + 1) * $step_s as t_s,
    cast(sum(msg) over (order by step range between $steps preceding and current row) as bigint) as msg,
    cast(sum(ra) over (order by step range between $steps preceding and current row) as bigint) as ra,
    cast(sum(pull) over (order by step range between $steps preceding and current row) as bigint) as pull
from filled
