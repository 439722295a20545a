"""Workloads that a user shapes: schemas, popularity, selectivity, traces, generators of packages."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter, defaultdict
from itertools import combinations
from pathlib import Path
from random import Random
from statistics import mean

import networkx as nx
import pytest

from router.options import options_of
from router.predicates import Message, matches
from testbed.experiments.config import Experiment, WorkloadOptions
from testbed.experiments.config.load import load_experiment
from testbed.experiments.config.schema import ExperimentError
from testbed.experiments.config.topology import shipped
from testbed.experiments.drawing.schema import Attribute, Schema
from testbed.experiments.workload import Item
from testbed.experiments.workload.generate import generate, match_distribution
from testbed.support.errors import InputError
from tests.support.cases import cases_beside
from tests.support.paths import DOCS

#: Schemas and traces that cannot be read, and a part of each error.
_FAULTS = cases_beside(__file__)
FLIGHTS = Path(__file__).with_name("flights.toml").read_text()


def _schema(folder: Path, text: str = FLIGHTS) -> Path:
    path = folder / "flights.toml"
    path.write_text(text, encoding="utf-8")
    return path


def _experiment(folder: Path, workload: str, topology: str = 'generator = "ring"\nnodes = 20') -> Experiment:
    path = folder / "e.toml"
    text = f"duration_s = 600\nseed = 5\n[topology]\n{topology}\n[workload]\n{workload}\n"
    path.write_text(text, encoding="utf-8")
    return load_experiment(path)


def test_values_are_as_popular_as_the_schema_says(tmp_path: Path) -> None:
    schema, random, sizes = Schema(_schema(tmp_path)), Random(1), WorkloadOptions()
    messages = [schema.draw_message(random, sizes) for _ in range(20_000)]
    assert all({"price", "seats"} <= message.keys() for message in messages)
    drawn = Counter(message["dest"] for message in messages if "dest" in message)
    assert drawn.total() == pytest.approx(10_000, rel=0.05)
    # Zipf with exponent 1: the second value is half as popular as the first, the tenth a tenth.
    assert drawn["v2"] / drawn["v1"] == pytest.approx(1 / 2, rel=0.1)
    assert drawn["v10"] / drawn["v1"] == pytest.approx(1 / 10, rel=0.2)


@pytest.mark.parametrize("filters", [1, 4])
@pytest.mark.parametrize("percent", [0.5, 5, 40, 100])
def test_every_predicate_selects_the_share_asked_for(tmp_path: Path, percent: float, filters: int) -> None:
    schema = Schema(_schema(tmp_path), percent / 100)
    sizes = WorkloadOptions(filters_min=filters, filters_max=filters, constraints_max=2)
    random = Random(2)
    messages = [schema.draw_message(random, sizes) for _ in range(4000)]
    shares = []
    for _ in range(20):
        predicate = schema.draw_predicate(random, sizes)
        assert len(predicate) == filters
        shares.append(sum(matches(predicate, message) for message in messages) / len(messages))
    expected = percent / 100
    # Five standard deviations of a count of 4,000 messages.
    spread = 5 * (expected * (1 - expected) / 4000) ** 0.5
    assert max(abs(share - expected) for share in shares) <= spread


def test_messages_of_a_workload_match_the_share_that_is_asked_for(tmp_path: Path) -> None:
    _schema(tmp_path)
    text = 'schema = "flights.toml"\nselectivity_percent = 20\nsenders_percent = 50\nmessages_per_minute = 10'
    shares = match_distribution(generate(_experiment(tmp_path, text, 'generator = "ring"\nnodes = 100')))
    assert len(shares) > 1000
    assert mean(shares) == pytest.approx(0.2, abs=0.02)


#: Long ones.
_LONG_SCHEMAS = [
    (f'[[attribute]]\nname = "{"a" * 256}"\ntype = "double"\n', "attribute 1: name: attribute name of 256"),
    (
        f'[[attribute]]\nname = "a"\ntype = "string"\nvalues = ["{"v" * 65_536}"]\n',
        "attribute 1: values: expected strings of at most 65535 bytes",
    ),
    (FLIGHTS.replace("]", '{ name = "price", type = "double" }]'), "attribute 4: 'price' is declared"),
]


@pytest.mark.parametrize(
    ("text", "problem"), [*((each["text"], each["problem"]) for each in _FAULTS["schema"]), *_LONG_SCHEMAS]
)
def test_errors_of_a_schema_name_file_and_attribute(tmp_path: Path, text: str, problem: str) -> None:
    path = _schema(tmp_path, text)
    with pytest.raises(InputError) as raised:
        Schema(path)
    assert str(raised.value).startswith(f"{path}: ") and problem in str(raised.value)


def test_integers_keep_to_bounds_that_a_double_can_hold(tmp_path: Path) -> None:
    low, high = -(2**53), 2**53
    text = f'[[attribute]]\nname = "a"\ntype = "integer"\nlow = {low}\nhigh = {high}\n'
    schema, random, sizes = Schema(_schema(tmp_path, text)), Random(3), WorkloadOptions()
    drawn = [schema.draw_message(random, sizes)["a"] for _ in range(100)]
    assert all(type(value) is int and low <= value < high for value in drawn)
    for constraint in next(iter(schema.draw_predicate(random, sizes))):
        assert type(constraint.value) is int and low <= constraint.value <= high


def test_a_selectivity_needs_a_number_that_every_message_has(tmp_path: Path) -> None:
    path = _schema(tmp_path, '[[attribute]]\nname = "a"\ntype = "double"\npresent = 0.5\n')
    assert Schema(path).draw_predicate(Random(1), WorkloadOptions())
    with pytest.raises(InputError, match="expected one with a number with present = 1"):
        Schema(path, 0.1)
    with pytest.raises(ExperimentError, match=r"selectivity_percent: needs workload\.schema"):
        _experiment(tmp_path, "selectivity_percent = 3")


CSV = '''\
at_s,node,action,subscription,predicate,message
0,Bern,set_predicate,,"price < 400.0 and dest = ""v1""",
5.5,1,send_message,,,"dest = ""v1"", price = 300.0"
700,1,send_message,,,a = 1
'''
ITEMS = (
    Item(0.0, 2, "set_predicate", predicate='price < 400.0 and dest = "v1"'),
    Item(5.5, 1, "send_message", attributes=Message({"dest": "v1", "price": 300.0})),
)
NAMED = 'generator = "ring"\nnodes = 3\n[topology.names]\n2 = "Bern"'


def test_a_trace_of_either_form_is_the_workload_up_to_the_end_of_the_experiment(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(CSV, encoding="utf-8")
    workload = generate(_experiment(tmp_path, 'trace = "t.csv"', NAMED))
    assert tuple(workload.items) == ITEMS
    assert (workload.senders, workload.receivers) == ((1,), (2,))
    # That of a spreadsheet may begin with a byte order mark.
    (tmp_path / "t.csv").write_text(CSV, encoding="utf-8-sig")
    assert tuple(generate(_experiment(tmp_path, 'trace = "t.csv"', NAMED)).items) == ITEMS
    # The form of a run's own workload: a run can be repeated from it.
    lines = "".join(json.dumps(item.line) + "\n" for item in ITEMS)
    (tmp_path / "t.jsonl").write_text(lines, encoding="utf-8")
    assert tuple(generate(_experiment(tmp_path, 'trace = "t.jsonl"', NAMED)).items) == ITEMS


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        *((each["file"], each["text"], each["problem"]) for each in _FAULTS["trace"]),
        ("t.csv", "at_s,node\n1," + "9" * 200_000, ": cannot be read: field larger than field limit"),
        ("t.jsonl", f'{{"at_s": 1{"0" * 400}, "node": 1, "action": "unsubscribe"}}', "line 1: at_s: 1000"),
        ("missing.csv", None, "missing.csv: cannot be read: "),
    ],
)
def test_trace_errors_name_file_and_line(tmp_path: Path, name: str, text: str | None, problem: str) -> None:
    if text is not None:
        (tmp_path / name).write_text(text, encoding="utf-8")
    experiment = _experiment(tmp_path, f'trace = "{name}"', 'generator = "ring"\nnodes = 3')
    with pytest.raises(InputError) as raised:
        generate(experiment)
    assert str(raised.value).startswith(str(tmp_path / name)) and problem in str(raised.value)


def test_a_generator_of_a_package_makes_the_workload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rush_hour.py").write_text(
        "from testbed.experiments.workload import Item\n"
        "def rush(experiment, random):\n"
        "    for node in range(len(experiment.topology.nodes)):\n"
        "        yield Item(0.0, node, 'set_predicate', predicate='a < 5')\n"
        "    yield Item(random.uniform(1, 2), 0, 'send_message', attributes={'a': 1})\n"
        "def wrong(experiment, random):\n"
        "    return ['x']\n"
        "def late(experiment, random):\n"
        "    return [Item(-1, 0, 'send_message', attributes={'a': 1})]\n"
        "def fails(experiment, random):\n"
        "    yield Item(1, 1, 'send_message')\n"
    )
    info = tmp_path / "rush_hour-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: rush-hour\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[cbcb.workloads]\nrush-hour = rush_hour:rush\nabsent = rush_hour:absent\n"
        "stock-ticks-local = rush_hour:rush\n"
        + "".join(f"{name} = rush_hour:{name}\n" for name in ("wrong", "late", "fails"))
    )
    monkeypatch.syspath_prepend(tmp_path)
    ring = 'generator = "ring"\nnodes = 3'
    first, again = (generate(_experiment(tmp_path, 'generator = "rush-hour"', ring)) for _ in range(2))
    assert first == again
    assert [(item.node, item.predicate) for item in first.items][:3] == [(n, "a < 5") for n in range(3)]
    assert (first.senders, first.receivers) == ((0,), (0, 1, 2))
    # No package replaces a generator of the testbed.
    own = generate(_experiment(tmp_path, 'generator = "stock-ticks-local"', ring)).items
    assert any("symbol" in (item.predicate or "") for item in own)
    for name, problem in (
        ("wrong", "wrong, item 1: 'x'; expected an Item"),
        ("late", "late, item 1: at_s: -1 is not valid; expected a number from 0 to 1e+09"),
        ("absent", "'absent' of package rush-hour cannot be imported: AttributeError: "),
        ("rush", "unknown generator 'rush'; did you mean 'rush-hour'?"),
    ):
        with pytest.raises(InputError, match=re.escape(problem)):
            generate(_experiment(tmp_path, f'generator = "{name}"', ring))
    with pytest.raises(InputError) as raised:
        generate(_experiment(tmp_path, 'generator = "fails"', ring))
    place = f"{tmp_path / 'rush_hour.py'}, line 11: ValueError: send_message at node 1: expected attributes"
    assert str(raised.value) == f"workload.generator: fails: fails at {place}"
    sys.modules.pop("rush_hour", None)


def test_the_page_about_workloads_names_every_key_of_a_schema_and_its_example_holds(tmp_path: Path) -> None:
    page = (DOCS / "how-to/workloads.md").read_text(encoding="utf-8")
    for option in options_of(Attribute):
        assert f"| `{option.key}` |" in page, option.key
    example = page.split("```toml\n")[1].split("```")[0]
    schema = Schema(_schema(tmp_path, example))
    message = schema.draw_message(Random(1), WorkloadOptions())
    assert message.keys() >= {"price", "airline"}


# Workloads of ticks.


_SIZES = {"att": (25, 56), "dfn": (58, 87), "geant2012": (40, 61), "telstra": (104, 151)}


def _of_ticks(folder: Path, interests: str, **more: object) -> Experiment:
    path = folder / "ticks.toml"
    path.write_text("duration_s = 600\n[topology]\nfile = 'telstra'\n[workload]\nfirst_predicate_s = 1\n")
    settings = {"generator": f"stock-ticks-{interests}", "changing_receivers_percent": 0, **more}
    return load_experiment(path, {f"workload.{key}": str(value) for key, value in settings.items()})


def _requests(experiment: Experiment) -> tuple[list[Item], list[Item]]:
    """Returns the requests of receivers, and the ticks."""
    items = [*generate(experiment).items]
    return [item for item in items if item.predicate], [item for item in items if item.attributes]


def test_shipped_topologies_are_found_by_name_from_any_folder(tmp_path: Path) -> None:
    path = tmp_path / "small.toml"
    path.write_text("duration_s = 1\n[topology]\ngenerator = 'ring'\nnodes = 3\n")
    assert shipped("topologies").keys() == _SIZES.keys()
    for name, size in _SIZES.items():
        topology = load_experiment(path, {"topology.file": name}).topology
        assert (topology.name, len(topology.nodes), len(topology.links)) == (name, *size)
    assert {link.cost for link in topology.links} > {1, 5, 12}


def test_interests_are_those_of_routers_near_one_another_or_the_same_at_other_routers(tmp_path: Path) -> None:
    """Also of receivers that join later; ticks do not depend on receivers."""
    changing = {"changing_receivers_percent": 60, "predicate_change_interval_s": 60}
    (local, ticks), (spread, same), (_, still) = (
        _requests(_of_ticks(tmp_path, interests, **more))
        for interests, more in (("local", changing), ("spread", changing), ("local", {}))
    )
    assert ticks == same == still
    assert Counter(item.predicate for item in local) == Counter(item.predicate for item in spread)
    links = _of_ticks(tmp_path, "local").topology.links
    hops = dict(nx.all_pairs_shortest_path_length(nx.Graph([(link.u, link.v) for link in links])))
    apart = []
    for items in (local, spread):
        subscribers = defaultdict[str, set[int]](set)
        for item in items:
            for asked in (item.predicate or "").split(" or "):
                if asked != "none":
                    subscribers[asked.partition(" and ")[0]].add(item.node)
        pairs = [pair for nodes in subscribers.values() for pair in combinations(sorted(nodes), 2)]
        apart.append(mean(hops[u][v] for u, v in pairs))
    assert apart[0] < 0.8 * apart[1]


def test_ticks_are_a_random_walk_of_symbols_popular_by_zipfs_law(tmp_path: Path) -> None:
    _, ticks = _requests(_of_ticks(tmp_path, "local", messages_per_minute=60))
    assert len(ticks) == pytest.approx(21 * 600, rel=0.05)
    symbols = Counter(str((item.attributes or {})["symbol"]) for item in ticks)
    # The sum of 1 / i to i = 100 is 5.19.
    assert [symbols[f"S{i}"] / len(ticks) for i in range(2)] == pytest.approx([1 / 5.19, 0.5 / 5.19], rel=0.1)
    listed, price = defaultdict[str, set[int]](set), dict.fromkeys(symbols, 100.0)
    for item in ticks:
        tick = item.attributes or {}
        symbol, after = str(tick["symbol"]), float(tick["price"])
        listed[symbol].add(item.node)
        assert 100 * (after / price[symbol] - 1) == pytest.approx(tick["change"], abs=0.05)
        price[symbol] = after
    assert {len(nodes) for nodes in listed.values()} == {1}


def test_a_share_of_the_receivers_leaves_and_joins_in_turn(tmp_path: Path) -> None:
    changing = {"changing_receivers_percent": 50, "predicate_change_interval_s": 60}
    requests, _ = _requests(_of_ticks(tmp_path, "local", **changing))
    of_node = defaultdict[int, list[str | None]](list)
    for item in requests:
        of_node[item.node].append(item.predicate)
    assert sum(len(each) > 1 for each in of_node.values()) / len(of_node) == pytest.approx(0.5, abs=0.15)
    for predicates in of_node.values():
        assert {*predicates[1::2]} <= {"none"}
