-- A row is a point: the share of control frames among the frames on links in the window before it (figure 13).
select t_s, (ra + pull) / (msg + ra + pull) as fraction, ra / (msg + ra + pull) as ra_fraction
from control_curve
where msg + ra + pull > 0
order by t_s
