from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from captures.accounting.direct import Direct
from captures.rundir import RunLayout
from captures.rundir.applications import read_applications
from captures.rundir.files import RunFolderError
from captures.rundir.inputs import WORKLOAD
from router.predicates import Message, Operator, Type
from router.predicates.encoded import BloomPredicate
from router.predicates.parser import parse_predicate
from router.privacy import KeyRing, write_keys
from testbed.experiments.config import Experiment, PrivacyOptions, WorkloadOptions
from testbed.experiments.config.load import load_experiment
from testbed.experiments.config.schema import ExperimentError
from testbed.experiments.drawing import OPERATORS, SUBJECTS
from testbed.experiments.events import APPLICATION, Event, SendMessage, SetPredicate
from testbed.experiments.events.network import LinkDown
from testbed.experiments.workload import Item, Workload, read_workload
from testbed.experiments.workload.generate import generate, match_distribution
from testbed.experiments.workload.keys import members_of
from tests.support.cases import cases_beside
from tests.support.simulated import judged_run
from topos.generators import line


def experiment(
    nodes: int = 20,
    seed: int = 1,
    duration_s: float = 1800,
    options: WorkloadOptions | None = None,
    events: Sequence[Event] = (),
) -> Experiment:
    workload = options or WorkloadOptions()
    return Experiment("test", seed, duration_s, 60, line(nodes), workload=workload, events=tuple(events))


def test_shares_are_rounded_and_at_least_one() -> None:
    workload = generate(experiment(nodes=20))
    assert (len(workload.senders), len(workload.receivers)) == (4, 15)
    few = WorkloadOptions(senders_percent=1, receivers_percent=0)
    workload = generate(experiment(nodes=20, options=few))
    assert (len(workload.senders), len(workload.receivers)) == (1, 0)


def test_every_receiver_has_a_predicate_from_the_start_and_half_of_them_change() -> None:
    workload = generate(experiment(nodes=40, duration_s=20_000))
    settings = [item for item in workload.items if item.action == "set_predicate"]
    assert sorted(item.node for item in settings if item.at_s == 0) == list(workload.receivers)
    changing = {item.node for item in settings if item.at_s > 0}
    assert len(changing) == 15 and changing < set(workload.receivers)


def test_items_are_in_order_with_predicates_first() -> None:
    workload = generate(experiment())
    keys = [(item.at_s, item.action == "send_message", item.node) for item in workload.items]
    assert keys == sorted(keys)
    assert all(0 <= item.at_s < 1800 for item in workload.items)


def test_intervals_of_each_sender_are_exponential() -> None:
    options = WorkloadOptions(messages_per_minute=60)
    workload = generate(experiment(nodes=10, duration_s=20_000, options=options))
    sent = [item for item in workload.items if item.action == "send_message"]
    times = [[item.at_s for item in sent if item.node == node] for node in workload.senders]
    gaps = [after - before for of_node in times for before, after in pairwise(of_node)]
    # An exponential distribution has a standard deviation equal to its mean, and a median of mean * ln 2.
    assert statistics.fmean(gaps) == pytest.approx(1, rel=0.05)
    assert statistics.stdev(gaps) == pytest.approx(1, rel=0.05)
    assert statistics.median(gaps) == pytest.approx(0.693, rel=0.05)


def test_the_first_message_waits() -> None:
    options = WorkloadOptions(first_message_s=600)
    sent = [i.at_s for i in generate(experiment(options=options)).items if i.action == "send_message"]
    assert sent and min(sent) >= 600


def test_the_first_predicates_wait_and_others_are_not_drawn() -> None:
    """The predicates are those of a workload that begins with them; changes come later by that time."""
    options = WorkloadOptions(changing_receivers_percent=100, predicate_change_interval_s=100)
    waiting = replace(options, first_predicate_s=50)
    early, late = (
        [item for item in generate(experiment(options=each)).items if item.predicate is not None]
        for each in (options, waiting)
    )
    moved = sorted(
        (replace(item, at_s=round(item.at_s + 50, 6)) for item in early),
        key=lambda item: (item.at_s, item.node),
    )
    assert {item.at_s for item in late[:15]} == {50.0}
    assert late == moved[: len(late)]


def test_the_same_experiment_gives_the_same_workload_and_another_seed_another() -> None:
    assert generate(experiment()) == generate(experiment())
    assert generate(experiment()).items != generate(experiment(seed=2)).items


def test_one_option_does_not_reshuffle_the_rest() -> None:
    base = generate(experiment())
    busy = generate(experiment(options=WorkloadOptions(messages_per_minute=30)))
    assert base.senders == busy.senders
    assert [i for i in base.items if i.predicate] == [i for i in busy.items if i.predicate]
    more = generate(experiment(options=WorkloadOptions(senders_percent=40)))
    assert set(base.senders) < set(more.senders)
    kept = [i for i in more.items if i.node in base.senders and i.attributes]
    assert kept == [i for i in base.items if i.attributes]


def test_sizes_are_kept_even_beyond_one_subject() -> None:
    options = WorkloadOptions(
        attributes_min=12,
        attributes_max=14,
        constraints_min=11,
        constraints_max=12,
        filters_min=4,
        filters_max=4,
    )
    workload = generate(experiment(options=options, duration_s=600))
    for item in workload.items:
        if item.attributes is not None:
            assert 12 <= len(item.attributes) <= 14
        elif item.predicate is not None:
            predicate = parse_predicate(item.predicate)
            assert len(predicate) == 4
            assert all(11 <= len(filter_) <= 12 for filter_ in predicate)


def test_all_types_and_operators_occur() -> None:
    workload = generate(experiment(nodes=400, duration_s=1))
    used = {
        (constraint.type, constraint.operator)
        for item in workload.items
        if item.predicate
        for filter_ in parse_predicate(item.predicate)
        for constraint in filter_
    }
    assert used == {(kind, operator) for kind, weights in OPERATORS.items() for operator, _ in weights}
    assert {kind for kind, _ in used} == set(Type)
    assert {operator for _, operator in used} == set(Operator)


def test_a_name_has_one_subject_and_one_type() -> None:
    names = [name for subject in SUBJECTS for name in subject.attributes]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("seed", range(1, 6))
def test_messages_match_as_many_predicates_as_in_figure_10(seed: int) -> None:
    # 200 nodes and 150 receivers, as in the paper; static predicates.
    options = WorkloadOptions(changing_receivers_percent=0)
    shares = match_distribution(generate(experiment(nodes=200, seed=seed, duration_s=600, options=options)))
    assert len(shares) > 1000
    matched = [share for share in shares if share > 0]
    assert 0.05 <= statistics.median(matched) <= 0.15
    assert sum(0.05 <= share <= 0.15 for share in shares) > len(shares) / 2
    assert 0.05 <= (len(shares) - len(matched)) / len(shares) <= 0.3
    assert max(shares) <= 0.3


def test_match_distribution_counts_the_predicates_in_force() -> None:
    def send(at_s: float, value: int) -> Item:
        return Item(at_s, 9, "send_message", attributes={"a": value})

    items = (
        send(0, 1),
        Item(1, 1, "set_predicate", predicate="a < 5"),
        Item(1, 2, "set_predicate", predicate="a > 5"),
        send(2, 1),
        send(2, 5),
        Item(3, 2, "set_predicate", predicate="a < 7"),
        send(4, 1),
        send(4, 6),
    )
    assert match_distribution(Workload(items)) == [0.5, 0.0, 1.0, 0.5]


def test_events_are_merged_in() -> None:
    events = [
        SetPredicate(10, 3, 'alert = "red"'),
        SendMessage(20, 0, 'alert = "red" level = 3'),
        LinkDown(15, (0, 1)),
        SendMessage(1800, 0, "last = true"),
    ]
    only = replace(experiment(events=events), workload=None)
    workload = generate(only)
    assert workload.items == (
        Item(10, 3, "set_predicate", predicate='alert = "red"'),
        Item(20, 0, "send_message", attributes={"alert": "red", "level": 3}),
        Item(1800, 0, "send_message", attributes={"last": True}),
    )
    assert workload.applications == [(0, "workload"), (3, "workload")]
    drawn = generate(experiment())
    assert len([*generate(experiment(events=events)).items]) == len([*drawn.items]) + 3


@pytest.mark.parametrize(("line", "problem"), cases_beside(__file__)["malformed_lines"])
def test_malformed_lines_are_named(tmp_path: Path, line: str, problem: str) -> None:
    run = RunLayout(tmp_path)
    run.workload.write_text(
        '{"at_s":0,"node":0,"action":"set_predicate","predicate":"a = 1"}\n' + line + "\n"
    )
    with pytest.raises(RunFolderError) as caught:
        read_workload(run)
    assert problem in str(caught.value)


# Several applications on a node, and the members of two runs, who share nothing under one key file.


_TEXT = """\
duration_s = 300
seed = 3
topology = { generator = "ring", nodes = 5 }
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
            Item(
                5.0, 0, "send_message", attributes={"a": 0, "b": 1.0, "c": True, "d": 'x "y" é'}, app="feed"
            ),
        ),
        (0,),
        (1,),
    )
    WORKLOAD.write(RunLayout(tmp_path), (item.line for item in workload.items))
    again = read_workload(RunLayout(tmp_path))
    # 1 == 1.0 == True: equality alone does not tell types apart.
    assert (again, [*map(repr, again.items)]) == (workload, [*map(repr, workload.items)])
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
    return sealed, [member.encode(predicate) for member in members]


@pytest.mark.attack("nonces of two runs")
def test_two_runs_under_one_key_file_share_no_nonce_and_no_secret(tmp_path: Path) -> None:
    write_keys(tmp_path / "keys", KeyRing.new())
    runs = [_sent_by(_private(tmp_path / "keys")) for _ in range(2)]
    assert len({sealed[:12] for contents, _ in runs for sealed in contents}) == 120
    assert len({sealed[:4] for contents, _ in runs for sealed in contents}) == 6
    assert len({str(predicate) for _, predicates in runs for predicate in predicates}) == 6


def test_a_run_with_keys_of_the_seed_is_repeated_byte_by_byte() -> None:
    assert _sent_by(_private()) == _sent_by(_private())
