"""Experiment time on DuckDB is that of the clock, to the last digit."""

from __future__ import annotations

import duckdb
import pytest

from captures.accounting.texts import double, experiment_seconds, wall_seconds
from tests.support.clocks import clock_of, lasting_s, times_of


@pytest.mark.parametrize("count", [1, 2, 3, 40])
def test_seconds_are_those_of_the_clock(count: int) -> None:
    clock = clock_of(count)
    times = times_of(clock)
    query = (
        f"select second, {wall_seconds(clock, 'second', 30.0)} from (select time_ns, "
        f"{experiment_seconds(clock, 'time_ns')} as second from (select unnest(?::bigint[]) as time_ns))"
    )
    with duckdb.connect() as database:
        rows = database.execute(query, [times]).fetchall()
    assert [second for second, _ in rows] == [clock.experiment_s(time_ns) for time_ns in times]
    expected = [lasting_s(clock, time_ns, 30.0) for time_ns in times]
    assert [lasting for _, lasting in rows] == pytest.approx(expected, abs=1e-5)


def test_a_number_is_read_as_it_is() -> None:
    numbers = [0.1, 1 / 3, 0.12345678901234568, 1e-300, -2.5, 1.7976931348623157e308, 0.0]
    with duckdb.connect() as database:
        assert database.execute("select " + ", ".join(map(double, numbers))).fetchone() == tuple(numbers)
