"""One experiment emulated at several rates of its clock, and simulated: equal deliveries, tables and frames.

With receiver advertisements alone, in each scheme, and with sender requests by the count of messages. Where
two routers ask at the same moment, real time may decide whether one hears the other's replies before it
answers or asks, and so how many SRs and URs there are: that race alone would explain a difference. Messages
here are 0.03 s of wall time apart or more, a round of requests takes some milliseconds, and in practice every
frame is the same: the tests ask for that.
"""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest

from captures.pcap.reader import PcapReader
from captures.rundir import RunLayout
from captures.rundir.inputs import MANIFEST
from captures.rundir.routing_tables import ROUTING_TABLES
from captures.rundir.summary import read_summary
from router.predicates import Predicate
from router.predicates.parser import parse_predicate
from router.protocol.counters import Counters
from router.protocol.services.attention.dissemination import FanOut, StrategyName
from router.recording.replay import check
from router.wire.header import decode_header
from tests.support.algebra import covers
from tests.support.applications import application_events
from tests.support.attention_experiment import DELIVERIES, deliveries, experiment, outcomes
from tests.support.command import CBCB, accounted, output_of
from tests.support.machines import machines
from tests.support.questions import ask
from tests.support.simulated import simulated

pytestmark = pytest.mark.emulation

_COUNTER = (1 << 32) - 1
_ETHERNET = 14
#: Counters of the protocol core; the link's count HELLOs and the like, which only real time repeats.
_CORE_COUNTERS = ("dropped", *Counters().as_dict())
# What was learnt stays fresh, so that no clock decides whether it answers an SR.
_PULL = '[protocol]\nsr_policy = "count"\nsr_threshold = 4\nur_freshness_s = 10000\n'
#: The schemes that make tables of predicates, and know no sender requests.
_SCHEMES = ("psf", "ips", "drp")
#: Name -> sections of the experiment: both ways of routing, all three broadcast layers, the schemes.
_SECTIONS = {
    "push": "",
    "pull": _PULL,
    "spanning-tree-pull": _PULL + '[broadcast]\nlayer = "spanning-tree"\n',
    "rpf-pull": _PULL + '[broadcast]\nlayer = "rpf"\n',
    "pif-classes-pull": _PULL + '[routing]\nscheme = "pif-classes"\n',
    **{scheme: f'[routing]\nscheme = "{scheme}"\n' for scheme in _SCHEMES},
}
#: A fixed rate, and one that a governor chooses: it is no faster than the oracle's window allows.
_RATES = {"4": "4", "auto": '"auto"', "machines": "4"}
_ORACLE = "[oracle]\nin_flight_window_s = 5\n"
_RUNS = [("auto" if sections == "pull" else "4", sections) for sections in _SECTIONS]
# One network over two machines.
_RUNS.append(("machines", "pull"))
#: A ring of five with a chord: nodes 1, 2 and 3 form a triangle, and paths of equal cost exist.
_HEAD = """
seed = 5
duration_s = 36
time_scale = {rate}

[topology]
name = "ring5"
link = [
  { u = 0, v = 1 }, { u = 1, v = 2 }, { u = 2, v = 3 }, { u = 3, v = 4 }, { u = 4, v = 0 }, { u = 1, v = 3 },
]
"""
#: Node and predicate, in order: some cover others, some are changed, one is withdrawn. Every predicate has
#: long spread before the next is set, so that no race decides which advertisement is filtered where.
_PREDICATES = [
    (0, "x > 50"),
    (1, "x > 70"),
    (2, 'x < 20 or class = "alert"'),
    (3, "x > 10 and x < 60"),
    (4, "x > 90"),
    (1, 'class = "alert" and x > 30'),
    (3, "x > 60"),
    (4, "none"),
]


def _experiment(path: Path, rate: str, sections: str) -> Path:
    subscription = 'node = 2\nsubscription = "alerts"\n'
    events = [
        (10.0, f'action = "subscribe"\n{subscription}predicate = "x = 42"\n'),
        (24.9, f'action = "unsubscribe"\n{subscription}'),
    ]
    events += [
        (float(at), f'action = "set_predicate"\nnode = {node}\npredicate = {json.dumps(text)}\n')
        for at, (node, text) in enumerate(_PREDICATES, start=2)
    ]
    for number in range(50):
        message = f"x = {number * 37 % 101}" + (' class = "alert"' if number % 3 == 0 else "")
        at = 14 + number * 0.4
        events.append(
            (at, f'action = "send_message"\nnode = {number % 5}\nmessage = {json.dumps(message)}\n')
        )
    head = _HEAD.replace("{rate}", _RATES[rate]) + sections + _ORACLE
    path.write_text(head + "".join(f"\n[[events]]\nat_s = {at:g}\n{body}" for at, body in events))
    return path


@pytest.fixture(scope="module", params=_RUNS, ids="-".join)
def runs(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> tuple[Path, Path]:
    """The folders of the emulation and of the simulation."""
    folder = tmp_path_factory.mktemp("parity")
    rate, sections = request.param
    experiment = _experiment(folder / f"parity-{rate}-{sections}.toml", rate, _SECTIONS[sections])
    command = ["run", str(experiment), "--runs", str(folder / "emulated"), "--no-account"]
    if rate == "machines":
        (folder / "machines").mkdir()
        with machines(folder / "machines", (1, 1)) as cluster:
            whole = [*cluster.inside, *CBCB, *command, "--master", cluster.url]
            done = subprocess.run(whole, env=cluster.environment, capture_output=True, text=True)
            assert done.returncode == 0, done.stdout + done.stderr
            assert [each.remains() for each in cluster.machines] == [[], []]
    else:
        output_of(*command)
    (emulated,) = (folder / "emulated").iterdir()
    return emulated, simulated(experiment, folder / "simulated").path


def _deliveries(run_dir: Path) -> Counter[tuple[int, int, int]]:
    """(Source, number of its message, receiving node) -> deliveries. Incarnations differ between runs."""
    lines = application_events(run_dir)
    return Counter(
        (line["source"], line["seq"] & _COUNTER, line["node"]) for line in lines if line["event"] == "deliver"
    )


def _frames(run_dir: Path) -> Counter[tuple[str, str]]:
    """(Capture of a link, type of frame) -> frames."""
    return Counter(
        (path.stem, decode_header(record.data[_ETHERNET:]).type.name)
        for path in (run_dir / "pcap").glob("link-*.pcap")
        for record in PcapReader(path).records()
    )


def test_the_same_messages_are_delivered_to_the_same_nodes(runs: tuple[Path, Path]) -> None:
    emulated, simulated = map(_deliveries, runs)
    assert emulated == simulated
    assert len(emulated) > 40
    assert set(emulated.values()) == {1}


def _tables(run: RunLayout) -> dict[int, dict[tuple[int | None, str], Predicate]]:
    """Node -> interface and scope of a row -> its predicate."""
    return {
        node: {(row["interface"], row["scope"]): parse_predicate(row["predicate"]) for row in rows}
        for node, rows in ROUTING_TABLES.read(run).items()
    }


def test_every_router_ends_with_the_same_table(runs: tuple[Path, Path]) -> None:
    emulated, simulated = (_tables(RunLayout(run_dir)) for run_dir in runs)
    assert emulated.keys() == simulated.keys() == set(range(5))
    for node, table in emulated.items():
        assert table.keys() == simulated[node].keys()
        for row, predicate in table.items():
            other = simulated[node][row]
            assert covers(predicate, other), (node, row)
            assert covers(other, predicate), (node, row)


def _pulls(run_dir: Path) -> bool:
    return run_dir.name.endswith("pull")


def test_the_same_frames_cross_every_link(runs: tuple[Path, Path]) -> None:
    emulated, simulated = map(_frames, runs)
    assert emulated == simulated
    kinds = {"MSG", "RA", "SR", "UR"} if _pulls(runs[0]) else {"MSG", "RA"}
    assert {kind for _, kind in emulated} == kinds
    if runs[0].name.endswith("machines-pull"):
        compared = accounted(runs[0])["reconciliation"]
        assert not any(each["differences"] for each in compared.values()), compared
        assert compared["tunnel"]["expected"] == compared["tunnel"]["found"] > 0
        tunnels = {f"pcap/{path.name}" for path in (runs[0] / "pcap").glob("tunnel-*")}
        assert tunnels and tunnels <= {*MANIFEST.read(RunLayout(runs[0]))["evidence"]}


def test_every_router_has_counted_the_same(runs: tuple[Path, Path]) -> None:
    def counted(run_dir: Path) -> dict[str, dict[str, Any]]:
        routers = json.loads((run_dir / "counters" / "routers.json").read_text())
        return {node: {name: router[name] for name in _CORE_COUNTERS} for node, router in routers.items()}

    emulated, simulated = map(counted, runs)
    assert emulated == simulated
    total = Counter[str]()
    for router in emulated.values():
        total.update({name: count for name, count in router.items() if name != "dropped"})
    pulled = ("srs_issued", "srs_saved", "urs_applied", "urs_reused")
    assert all(bool(total[name]) == _pulls(runs[0]) for name in pulled), total
    # Reverse-path forwarding sends beyond the tree, where the frame is dropped.
    in_vain = sum(router["dropped"].get("reverse_path", 0) for router in emulated.values())
    assert bool(in_vain) == runs[0].name.endswith("rpf-pull")
    assert total["urs_missed"] == total["urs_sent_partial"] == 0


# The attention-limited service.


#: The publications that break I4 of docs/explanation/attention.md.
_PENDING_TWICE = """SELECT attention.source, attention.seq FROM frames
WHERE type = 'PUB' AND attention.flags & 1 = 1 GROUP BY ALL HAVING count(DISTINCT (issuer, frames.seq)) > 1"""


def _held(run: RunLayout) -> dict[str, Any]:
    """The summary of a run whose verdict holds, and in which no delivery breaks a rule."""
    summary = read_summary(run)
    assert (summary["verdict"], summary["verdict_reasons"]) == ("holds", [])
    assert set(summary["attention"]["violations"].values()) == {0}
    assert ask(run.path, _PENDING_TWICE) == []
    return summary


@pytest.mark.parametrize("fan_out", ["whole", "sequential"])
@pytest.mark.parametrize("strategy", get_args(StrategyName))
def test_real_routers_deliver_as_simulated_routers_do(
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    emulated: Callable[..., Path],
    strategy: StrategyName,
    fan_out: FanOut,
) -> None:
    path = experiment(tmp_path_factory.getbasetemp() / f"{strategy}-{fan_out}.toml", strategy, 3, fan_out)
    run, virtual = RunLayout(emulated(str(path), "--no-account")), simulated(path, tmp_path / "simulated")
    accounted(virtual.path)
    assert deliveries(run.path) == deliveries(virtual.path) == DELIVERIES
    assert outcomes(run.path) == outcomes(virtual.path)
    summary = _held(run)
    assert summary["rests_on"]["frames"] == "captures"
    # beta_s of pdp is below the time for which frames may be under way.
    assert (summary["attention"]["undecided"] is None) == (strategy == "eon")
    assert summary["attention"] == _held(virtual)["attention"]
    frames = {
        decode_header(record.data[_ETHERNET:]).type.name
        for capture in run.captures_folder.glob("link-*.pcap")
        for record in PcapReader(capture).records()
    }
    assert frames == {"SUB", "PUB", "OVERLOAD"} if strategy == "eon" else {"SUB", "PUB"}
    for node in range(5):
        replayed = check(run.recording(node))
        assert (replayed.difference, replayed.cut) == (None, None)
