-- The only row has the crossings of `repeated_frames` beyond the first of each.
select cast(coalesce(sum(crossings - 1), 0) as bigint) as frames_repeated from repeated_frames
