"""Several applications on a node, and the members of two runs, who share nothing under one key file."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from captures.accounting.direct import Direct
from captures.rundir import RunLayout
from captures.rundir.applications import read_applications
from router.predicates import Message
from router.predicates.encoded import BloomPredicate
from router.predicates.parser import parse_predicate
from router.privacy import KeyRing, write_keys
from testbed.experiments.config import Experiment, PrivacyOptions
from testbed.experiments.config.load import load_experiment
from testbed.experiments.config.schema import ExperimentError
from testbed.experiments.events import APPLICATION
from testbed.experiments.workload import Item, Workload, read_workload, write_workload
from testbed.experiments.workload.generate import generate
from testbed.experiments.workload.keys import members_of
from tests.support.simulated import judged_run
from topos.generators import line

_TEXT = """\
duration_s = 300
seed = 3
[topology]
generator = "ring"
nodes = 5
"""
_DRAWN = "[workload]\nreceivers_percent = 60\nsenders_percent = 40\n"


def _experiment(folder: Path, text: str) -> Experiment:
    path = folder / "e.toml"
    path.write_text(_TEXT + text, encoding="utf-8")
    return load_experiment(path)


def test_drawn_nodes_run_as_many_applications_as_the_experiment_says(tmp_path: Path) -> None:
    alone = generate(_experiment(tmp_path, _DRAWN))
    several = generate(_experiment(tmp_path, f"{_DRAWN}applications_per_node = 3\n"))
    assert (several.senders, several.receivers) == (alone.senders, alone.receivers)
    names = ("workload", "workload-2", "workload-3")
    nodes = sorted({*alone.senders, *alone.receivers})
    assert several.applications == [(node, name) for node in nodes for name in names]
    # The first application of a node does what it does alone, and no other does the same.
    assert [item for item in several.items if item.app == "workload"] == list(alone.items)
    opening = [item.predicate for item in several.items if item.predicate is not None and item.at_s == 0]
    assert len(set(opening)) == len(opening) == 3 * len(alone.receivers)


def test_an_application_is_named_in_files_events_and_traces(tmp_path: Path) -> None:
    workload = Workload(
        (
            Item(0.0, 1, "subscribe", predicate="a < 1", subscription="s", app="board"),
            Item(0.0, 1, "subscribe", predicate="a < 2", subscription="s"),
            Item(5.0, 0, "send_message", attributes={"a": 0}, app="feed"),
        ),
        (0,),
        (1,),
    )
    write_workload(RunLayout(tmp_path), workload)
    assert read_workload(RunLayout(tmp_path)) == workload
    event = '[[events]]\naction = "set_predicate"\nat_s = 0\nnode = 2\napp = "board"\npredicate = "a > 0"\n'
    (item,) = generate(_experiment(tmp_path, event)).items
    assert item == Item(0.0, 2, "set_predicate", predicate="a > 0", app="board")
    (tmp_path / "t.csv").write_text("at_s,node,app,action,predicate\n1,2,board,set_predicate,a > 0\n")
    (item,) = generate(_experiment(tmp_path, '[workload]\ntrace = "t.csv"\n')).items
    assert (item.place, item.predicate) == ((2, "board"), "a > 0")


def test_a_name_of_a_subscription_is_that_of_its_application(tmp_path: Path) -> None:
    event = '[[events]]\naction = "subscribe"\nat_s = 1\nnode = 2\nsubscription = "s"\npredicate = "a > 0"\n'
    two = f'{event}{event}app = "board"\n'
    assert len(_experiment(tmp_path, two).events) == 2
    with pytest.raises(ExperimentError, match='"s" is in force at node 2 at 1 s already'):
        _experiment(tmp_path, two.replace('app = "board"\n', ""))


@pytest.mark.parametrize("privacy", ["", '[privacy]\nmode = "bloom"\n'])
def test_each_application_gets_its_messages_and_the_verdict_holds(tmp_path: Path, privacy: str) -> None:
    experiment = _experiment(tmp_path, f"{_DRAWN}applications_per_node = 3\n{privacy}")
    run = judged_run(experiment, tmp_path)
    with Direct(run.path) as direct:
        summary = direct.summary()
    assert summary["verdict"] == "holds", summary["verdict_reasons"]
    assert summary["deliveries_made"] == summary["deliveries_expected"] > 20
    delivered: Counter[str] = Counter()
    sent: Counter[str] = Counter()
    for _, recorded in read_applications(run):
        counted = {"deliver": delivered, "send_message": sent}.get(recorded.event["event"])
        if counted is not None:
            counted[recorded.event["app"]] += 1
    assert delivered.keys() == sent.keys() == {"workload", "workload-2", "workload-3"}
    assert delivered.total() == summary["deliveries_made"]
    planned = Counter(item.app for item in generate(experiment).items if item.attributes is not None)
    assert sent == planned


PLACES = [(0, APPLICATION), (1, APPLICATION), (1, "second")]


def _private(key_file: Path | None = None) -> Experiment:
    keys = None if key_file is None else str(key_file)
    privacy = PrivacyOptions(mode="bloom", kept_hashes=4, key_file=keys)
    return Experiment("members", 1, 1.0, 1.0, line(2), privacy=privacy)


def _sent_by(experiment: Experiment) -> tuple[set[bytes], list[BloomPredicate]]:
    """Returns what a run sends: the sealed contents of 20 messages of each member, and encoded predicates."""
    members = members_of(experiment, PLACES).values()
    sealed = {member.message(Message({"a": 1})).sealed for member in members for _ in range(20)}
    # With one constraint, two members choose the same 4 of 8 bits once in 70 times.
    predicate = parse_predicate(" and ".join(f"{name} = 1" for name in "abcdefgh"))
    return sealed, [member.set_predicate(predicate) for member in members]


@pytest.mark.attack("nonces of two runs")
def test_two_runs_under_one_key_file_share_no_nonce_and_no_secret(tmp_path: Path) -> None:
    write_keys(tmp_path / "keys", KeyRing.new())
    runs = [_sent_by(_private(tmp_path / "keys")) for _ in range(2)]
    assert len({sealed[:12] for contents, _ in runs for sealed in contents}) == 120
    assert len({sealed[:4] for contents, _ in runs for sealed in contents}) == 6
    assert len({str(predicate) for _, predicates in runs for predicate in predicates}) == 6


def test_a_run_with_keys_of_the_seed_is_repeated_byte_by_byte() -> None:
    assert _sent_by(_private()) == _sent_by(_private())
