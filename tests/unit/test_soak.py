"""`tests.bench.soak`: what counts as flat, and what as not judged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from testbed.experiments.config.load import load_experiment
from tests.bench.soak import JUDGED, Rise, Sample, experiment, rises


def _life(
    part: str, pid: int, samples: int, *, memory: float = 0.0, descriptors: float = 0.0, queued: float = 0.0
) -> Iterator[Sample]:
    """Samples a second apart of a process that rises by so much in the later two thirds of its life."""
    first = samples // 3
    for number in range(samples):
        share = max(0, number - first) / (samples - 1 - first)
        yield Sample(
            *(float(number), part, pid),
            *(40.0 + memory * share, round(30 + descriptors * share), round(queued * share)),
        )


def _judged(samples: Iterable[Sample], part: str) -> Rise:
    (found,) = rises(samples, [part])
    return found


@pytest.mark.parametrize(
    ("part", "rise", "flat"),
    [
        ("controller", {}, True),
        ("controller", {"memory": 3.9}, True),
        ("controller", {"memory": 4.1}, False),
        # The caches of a router take more, and are not full after an hour.
        ("router 2", {"memory": 15.9}, True),
        ("router 2", {"memory": 16.1}, False),
        ("parent of routers", {"descriptors": 4.0}, False),
        ("router 2", {"queued": 5000}, False),
        ("captures", {"memory": -9.0, "descriptors": -3.0}, True),
    ],
)
def test_a_part_is_flat_if_nothing_of_it_rises_by_more_than_its_bound(
    part: str, rise: dict[str, float], flat: bool
) -> None:
    found = _judged(_life(part, 7, 300, **rise), part)
    assert (found.part, found.samples, found.flat) == (part, 200, flat)
    assert found.memory_mib == pytest.approx(rise.get("memory", 0.0), abs=0.01)


def test_a_rise_may_grow_with_the_hours() -> None:
    samples = [
        Sample(each.at_s * 36, each.part, each.pid, each.memory_mib, each.descriptors, each.queued)
        for each in _life("controller", 7, 301, memory=7.0)
    ]
    # The later two thirds of three hours are two.
    assert _judged(samples, "controller").flat is True


def test_the_longest_life_of_a_part_is_judged() -> None:
    lives = [
        *_life("controller", 1, 20, memory=99.0),
        *_life("controller", 2, 90),
        *_life("controller", 3, 30),
    ]
    found = _judged(lives, "controller")
    assert (found.samples, round(found.memory_mib, 6), found.flat) == (60, 0.0, True)


def test_a_part_with_too_few_samples_is_not_judged() -> None:
    short = [sample for pid in range(10) for sample in _life("controller", pid, 10)]
    assert _judged(short, "controller") == Rise("controller", 7, flat=None)
    assert str(_judged(short, "controller")).endswith("  NOT JUDGED")
    assert [each.flat for each in rises([])] == [None] * len(JUDGED)


def test_the_experiment_of_an_hour_is_valid_and_has_a_fault_every_15_s(tmp_path: Path) -> None:
    path = tmp_path / "soak.toml"
    path.write_text(experiment(3600, 0))
    events = load_experiment(path).events
    assert len({event.at_s for event in events if event.at_s % 15 == 0}) == 237
    assert len({event.action for event in events}) == 12
