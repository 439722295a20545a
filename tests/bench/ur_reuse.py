"""What reusing URs saves (protocol paper, section 3.5.4), on a Waxman network of 200 nodes, simulated.

Every router asks through all its interfaces once in ten minutes (figure 14), at a random phase. The workload
of section 4.1 (75 % receivers, half of which change their predicates once in 20 minutes) goes on for ten
minutes; then predicates stay, until each router has asked once more and nothing that answered it was learnt
before. So in the end every table must hold just what the nodes behind each interface want, by the predicates
that they have and the trees: reuse may save frames, and change nothing. No messages are sent.

Frames are Ethernet frames on links between routers, each fragment one.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from router.predicates.algebra import covers
from router.predicates.builder import PredicateBuilder
from router.predicates.model import NOTHING, Predicate
from router.predicates.parser import parse_predicate
from testbed.config.load import load_experiment
from testbed.config.model import BroadcastLayer, Experiment, TimedEvent
from testbed.config.shipped import find_experiment
from testbed.controller.trees import LAYERS
from testbed.run.progress import Progress
from testbed.sim.simulation import simulate
from testbed.workload.generate import generate
from topos.model import Topology

_PERIOD_S = 600.0
_LAYERS: tuple[BroadcastLayer, ...] = ("spt", "spanning-tree")


def _experiment(nodes: int) -> Experiment:
    overrides = {
        "topology.nodes": str(nodes),
        "time_scale": "1",
        "duration_s": str(_PERIOD_S),
        "workload.first_message_s": str(_PERIOD_S),
    }
    return load_experiment(find_experiment("waxman200"), overrides)


def _run(experiment: Experiment, layer: BroadcastLayer, reuse: bool) -> Counter[str]:
    """Frames received by all routers, by type; "wrong" are entries of tables that are not the oracle's."""
    changes = tuple(
        TimedEvent(item.at_s, "set_predicate", node=item.node, predicate=item.predicate)
        for item in generate(experiment).items
        if item.predicate is not None
    )
    played = replace(
        experiment,
        broadcast=replace(experiment.broadcast, layer=layer),
        protocol=replace(
            experiment.protocol,
            sr_policy="periodic",
            sr_period_s=_PERIOD_S,
            ur_reuse=reuse,
        ),
        workload=None,
        events=changes,
        duration_s=2 * _PERIOD_S + experiment.protocol.ur_freshness_s + experiment.protocol.sr_timeout_s,
    )
    with tempfile.TemporaryDirectory() as folder, (Path(folder) / "said").open("w") as said:
        run_dir = simulate(played, Path(folder), Progress(Console(file=said)), "none")
        routers = json.loads((run_dir / "counters" / "routers.json").read_text())
        tables = json.loads((run_dir / "logs" / "tables.json").read_text())
    counted: Counter[str] = Counter()
    for counters in routers.values():
        counted.update(counters["frames_received"])
        counted.update({name: counters[name] for name in ("srs_issued", "srs_saved", "urs_reused")})
    known = {
        int(node): {int(interface): parse_predicate(text) for interface, text in table.items()}
        for node, table in tables.items()
    }
    counted["wrong"] = _wrong(played.topology, layer, known)
    return counted


def _wrong(topology: Topology, layer: BroadcastLayer, known: dict[int, dict[int, Predicate]]) -> int:
    """Entries that are not just what the nodes behind them on the router's own tree want."""
    interface = {}
    for link in topology.links:
        interface[link.u, link.v], interface[link.v, link.u] = link.u_port, link.v_port
    wrong = 0
    for source, tree in LAYERS[layer](topology, frozenset(), frozenset()).trees.items():
        #: Node -> the child of the source that leads to it.
        first: dict[int, int] = {}
        wanted: dict[int, PredicateBuilder] = {}
        for node in tree.order[1:]:
            parent = tree.parents[node]
            first[node] = node if parent == source else first[parent]
            entry = wanted.setdefault(interface[source, first[node]], PredicateBuilder())
            entry.add(known[node].get(0, NOTHING))
        entries = {i: p for i, p in known[source].items() if i != 0}
        for number in entries.keys() | wanted.keys():
            has = entries.get(number, NOTHING)
            wants = wanted[number].predicate if number in wanted else NOTHING
            wrong += not (covers(has, wants) and covers(wants, has))
    return wrong


def main(nodes: int = 200) -> None:
    """Prints SR and UR frames without and with reuse, for both layers."""
    experiment = _experiment(nodes)
    freshness_s = experiment.protocol.ur_freshness_s
    print(
        f"{nodes} nodes, {len(experiment.topology.links)} links, an SR of each router every {_PERIOD_S:g} s"
    )
    print(f"{'layer':14}{'reuse':>8}{'SRs':>8}{'SR frames':>11}{'UR frames':>11}{'share':>7}{'wrong':>7}")
    for layer in _LAYERS:
        without, reused = (_run(experiment, layer, reuse) for reuse in (False, True))
        for name, counted in (("no", without), (f"{freshness_s:g} s", reused)):
            share = (counted["SR"] + counted["UR"]) / (without["SR"] + without["UR"])
            print(
                f"{layer:14}{name:>8}{counted['srs_issued']:8,}{counted['SR']:11,}{counted['UR']:11,}"
                f"{share:7.1%}{counted['wrong']:7}",
                flush=True,
            )
