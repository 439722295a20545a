"""DuckDB's expressions of experiment time are equal to the clock."""

from __future__ import annotations

import random

import duckdb
import pytest

from captures.accounting.times import experiment_seconds, wall_seconds
from captures.rundir.clock import Clock
from router.clock.pieces import NS, Piece


@pytest.mark.parametrize("count", [1, 2, 3, 12])
def test_pieces_map_as_the_clock_does(count: int) -> None:
    rng = random.Random(count)
    made = [Piece(1_700_000_000 * NS, -5.0, 1.0)]
    for _ in range(count - 1):
        made.append(made[-1].followed_by(made[-1].start_ns + rng.randrange(NS, 20 * NS), rng.uniform(1, 90)))
    clock = Clock(made)
    starts = [piece.start_ns for piece in clock.pieces]
    times = [starts[0] - NS, *starts, *(start - 1 for start in starts[1:]), starts[-1] + NS]
    query = (
        f"select time_ns, second, {wall_seconds(clock, 'second', 30.0)} from (select time_ns, "
        f"{experiment_seconds(clock, 'time_ns')} as second from (select unnest(?::bigint[]) as time_ns))"
    )
    with duckdb.connect() as database:
        rows = database.execute(query, [times]).fetchall()
    assert len(rows) == len(times)
    for time_ns, second, lasting in rows:
        assert second == pytest.approx(clock.experiment_s(time_ns), abs=1e-6)
        expected = clock.wall_ns(clock.experiment_s(time_ns) + 30) - clock.wall_ns(
            clock.experiment_s(time_ns)
        )
        assert lasting == pytest.approx(expected / NS, abs=1e-5)
