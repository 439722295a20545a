-- A row is a captured frame, with its experiment second, and with the sender of a message under the name that
-- other tables have for it.
select *, experiment_s(time_ns) as time_s, case when type = 'MSG' then issuer end as source from captured
