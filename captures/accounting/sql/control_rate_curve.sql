-- A row is a point: the frames on links a second in the window before it (figure 14).
select t_s, msg / $window_s as msg_per_s, ra / $window_s as ra_per_s, pull / $window_s as sr_ur_per_s
from control_curve
order by t_s
