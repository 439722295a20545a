"""The estimate of an emulation's work."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.cli.main import main
from testbed.emulation.run.estimate import Estimate, estimate
from testbed.experiments.config.load import load_experiment
from testbed.experiments.workload.generate import generate

LINE = """
duration_s = 100
time_scale = 50
workload = false
[topology]
generator = "line"
nodes = 5
"""
EVENTS = """
[[events]]
at_s = 0
action = "set_predicate"
node = {receiver}
predicate = "a = 1"
[[events]]
at_s = 20
action = "send_message"
node = 0
message = "a = 1"
[[events]]
at_s = 30
action = "send_message"
node = 0
message = "a = 2"
[[events]]
at_s = 40
action = "set_predicate"
node = 1
predicate = "b = 1"
"""


@pytest.mark.parametrize(("receiver", "hops"), [(0, 0), (1, 1), (4, 4)])
def test_hops_are_those_to_the_receivers_that_want_a_message(
    receiver: int, hops: int, tmp_path: Path
) -> None:
    path = tmp_path / "e.toml"
    path.write_text(LINE + EVENTS.format(receiver=receiver))
    experiment = load_experiment(path)
    made = estimate(experiment, generate(experiment))
    assert (made.message_hops, made.ra_hops) == (hops / 100, 4 / 100)
    assert made.rate > 100 and 0 < made.opening_s < 1


PUBLISHED = """
[service]
kind = "attention"
[[events]]
at_s = 0
action = "register"
node = 0
subscription = "s"
predicate = "a = 1"
max = 2
lifetime_s = 10
freshness_s = 10
[[events]]
at_s = 20
action = "refresh"
node = 0
subscription = "s"
[[events]]
at_s = 21
action = "publish"
node = 4
message = "a = 1"
"""


def test_publications_and_subscriptions_of_events_cross_every_link_at_most_once(tmp_path: Path) -> None:
    path = tmp_path / "e.toml"
    path.write_text(LINE + PUBLISHED)
    experiment = load_experiment(path)
    made = estimate(experiment, generate(experiment))
    assert (made.message_hops, made.ra_hops, made.opening_hops) == (4 / 100, 8 / 100, 0)
    assert made.describe().startswith(
        "0.04 publications and 0.08 subscriptions and notifications over links per experiment second: "
    )


def test_a_check_of_table_1_names_publications_and_renewals(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "diallo-small", "--force"]) == 0
    printed = capsys.readouterr().out
    assert "20000 publications, 400 subscriptions, 293 renewals\n" in printed
    assert " publications and " in printed
    assert "messages" not in printed and "predicates" not in printed


def test_a_rate_beyond_the_estimate_is_warned_of(tmp_path: Path) -> None:
    path = tmp_path / "e.toml"
    path.write_text(LINE)
    made = Estimate(message_hops=1000.0, ra_hops=10.0, opening_hops=50.0, opening_s=1.0, rate=12.34)
    experiment = load_experiment(path)
    assert made.warning(experiment) == (
        "time_scale 50 is more than this machine keeps up with now, and an emulation would be invalid; "
        'expected at most 12, or "auto"'
    )
    for enough in ("auto", "12"):
        assert made.warning(load_experiment(path, {"time_scale": enough})) is None
    assert made.describe() == (
        "1e+03 messages and 10 RAs over links per experiment second: a time scale of about 12 at most; "
        "1 s for the opening"
    )


@pytest.mark.parametrize("key", ["delay_ms", "bandwidth_mbps", "loss_percent"])
def test_a_governed_rate_excludes_links_with_times_of_their_own(key: str, tmp_path: Path) -> None:
    path = tmp_path / "e.toml"
    path.write_text(LINE.replace("50", '"auto"') + f"[links]\n{key} = 3\n")
    with pytest.raises(ValueError, match=f'time_scale: "auto" and {key} of link 0-1 exclude each other'):
        load_experiment(path)
