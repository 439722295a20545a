"""A hop limit and times of an experiment that are too short for its trees and the delays of its links."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from testbed.emulation.control.quiescence import quiet_limit_s
from testbed.experiments.config import Experiment
from testbed.experiments.config.hop_limit import load_checked
from testbed.experiments.config.schema import ExperimentError
from tests.support.cases import cases_beside
from topos.generators import line

#: Four links of 300 ms in a row: a frame over all of them takes 1.2 s, and 16.9 s after the event.
_EXPERIMENT = Path(__file__).with_name("slow_links.toml").read_text()


def _load(tmp_path: Path, **given: str) -> Experiment:
    file = tmp_path / "times.toml"
    file.write_text(_EXPERIMENT)
    return load_checked(file, {key.replace("__", "."): value for key, value in given.items()})


def _problems(tmp_path: Path, **given: str) -> list[str]:
    with pytest.raises(ExperimentError) as raised:
        _load(tmp_path, **given)
    return [problem.removeprefix(f"{tmp_path / 'times.toml'}: ") for problem in raised.value.problems]


def test_the_window_of_the_oracle_is_as_long_as_a_frame_is_under_way(tmp_path: Path) -> None:
    assert _problems(tmp_path) == [
        "[oracle] in_flight_window_s: 1 is too short for the delays of the links: a frame is under way for "
        "up to 16.9 wall seconds"
    ]
    _load(tmp_path, oracle__in_flight_window_s="16.9")


def test_a_way_is_as_long_as_its_links_together(tmp_path: Path) -> None:
    """Of different links, one without a delay: no multiple of the shortest one."""
    first, *others = line(5).links
    links = first, *(replace(link, delay_ms=300.0, jitter_ms=10.0) for link in others)
    file = tmp_path / "times.toml"
    file.write_text("duration_s = 60\noracle.in_flight_window_s = 0.9\n")
    with pytest.raises(ExperimentError, match=r"a frame is under way for up to 0\.93 wall seconds"):
        load_checked(file, {}, topology=replace(line(5), links=links))


@pytest.mark.parametrize(("given", "problem"), cases_beside(__file__)["waits"])
def test_waits_of_routers_are_as_long_as_the_answer_takes(
    tmp_path: Path, given: dict[str, str], problem: str
) -> None:
    assert _problems(tmp_path, oracle__in_flight_window_s="90", **given) == [problem]


def test_a_slow_clock_gives_the_waits_of_routers_their_time(tmp_path: Path) -> None:
    slow = {"oracle__in_flight_window_s": "90", "time_scale": "0.1"}
    assert quiet_limit_s(_load(tmp_path, **slow)) == 60
    assert quiet_limit_s(_load(tmp_path, protocol__sr_policy='"count"', **slow)) == 60 + 600


@pytest.mark.parametrize(
    ("topology", "least"), [("line", "at least 4"), ("ring", "at least 4, or 8 for whatever links fail")]
)
def test_a_hop_limit_is_at_least_the_depth_of_the_trees(tmp_path: Path, topology: str, least: str) -> None:
    file, nodes = tmp_path / "hops.toml", {"line": 5, "ring": 9}[topology]
    text = f'duration_s = 10\ntopology.generator = "{topology}"\ntopology.nodes = {nodes}\n'
    file.write_text(f"{text}protocol.hop_limit = 3\n")
    with pytest.raises(ExperimentError) as raised:
        load_checked(file, {})
    assert raised.value.problems == (
        f"{file}: [protocol] hop_limit: 3 is below the depth of the broadcast trees, which is 4 while all "
        f"links are up; expected {least}",
    )
    load_checked(file, {"protocol.hop_limit": "4"})
