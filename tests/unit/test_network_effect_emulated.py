"""`tests.bench.network_effect`: what a row shows, and the runs that are no base of the loads."""

from __future__ import annotations

import numpy as np
import pytest

from tests.bench import network_effect
from tests.bench.network_effect import _Run, most_messages


def _run(hops: list[int], verdict: str = "holds") -> _Run:
    return _Run(10.0, np.array(hops), np.array([float(1 + each) for each in range(len(hops))]), verdict)


def _cells(run: _Run, capsys: pytest.CaptureFixture[str]) -> list[str]:
    run.show("compiled", 1000, 10, 0.5)
    return capsys.readouterr().out.split()


def test_deliveries_without_a_known_path_are_counted_and_in_no_column_of_hops(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Of 4 deliveries: delays of 1 to 4 ms, 2 of them 0 and 1 hops away."""
    assert _cells(_run([0, 1, -1, -1]), capsys)[5:] == ["4", "2.50", "3.70", "1.00", "1.00", "2", "holds"]
    # All paths are unknown: the columns of hops are empty.
    assert _cells(_run([-1, -1]), capsys)[5:] == ["2", "1.50", "1.90", "2", "holds"]


def test_a_slow_rate_has_a_message() -> None:
    assert [most_messages(rate) for rate in (0.001, 0.5, 100.0)] == [1, 10, 2000]


def test_a_burst_whose_verdict_fails_ends_the_benchmark(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[float | None] = []

    class Population:
        def __init__(self, constraints: int, receivers: int, messages: int) -> None:
            del constraints, receivers, messages

        def run(self, engine: str, routers: int, rate: float | None) -> _Run:
            del engine, routers
            asked.append(rate)
            return _run([0], "fails; 3 expected deliveries missed after convergence")

    monkeypatch.setattr(network_effect, "_Population", Population)
    with pytest.raises(
        SystemExit, match="a burst is the base of the loads, and its verdict fails; 3 expected"
    ):
        network_effect.main(["compiled"], 1000, 10, 10, 100)
    assert asked == [None]
    assert capsys.readouterr().out.endswith("fails; 3 expected deliveries missed after convergence\n")
