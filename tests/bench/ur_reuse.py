"""The savings of reusing URs (protocol paper, section 3.5.4), on a simulated Waxman network of 200 nodes.

Every router asks through all its interfaces once in ten minutes (figure 14), at a random phase, while 75 % of
the nodes receive and half of these change their predicates once in 20 minutes (section 4.1): 20 minutes,
without messages. Frames are counted up to there. Then, when all that was learnt is too old to be used again,
each router asks once more, and every table must hold just what the nodes behind each interface want, by the
predicates that they have and the trees: "wrong" counts entries that do not.

Frames are Ethernet frames on links between routers, each fragment one.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from router.protocol.events import RequestUpdate
from testbed.experiments.config.load import find_experiment, load_experiment
from testbed.experiments.config.model import Experiment
from testbed.results.folders import new_run_folder
from testbed.sim.clock import due_ns
from testbed.sim.simulation import Simulation
from testbed.terminal.progress import Progress
from tests.support.router_tables import predicates_of
from tests.support.routing_oracle import wrong_entries

_PERIOD_S = 600.0
_LAYERS: tuple[str, ...] = ("spt", "spanning-tree")


def _experiment(nodes: int) -> Experiment:
    overrides = {
        "topology.nodes": str(nodes),
        "time_scale": "1",
        "duration_s": str(2 * _PERIOD_S),
        "workload.senders_percent": "0",
    }
    return load_experiment(find_experiment("waxman200"), overrides)


def _run(experiment: Experiment, layer: str, reuse: bool) -> Counter[str]:
    """Frames received by all routers, by type; "wrong" are entries of tables that are not the oracle's."""
    played = replace(
        experiment,
        broadcast=replace(experiment.broadcast, layer=layer),
        protocol=replace(experiment.protocol, sr_policy="periodic", sr_period_s=_PERIOD_S, ur_reuse=reuse),
    )
    with tempfile.TemporaryDirectory() as folder, (Path(folder) / "said").open("w") as said:
        run_dir = new_run_folder(Path(folder), played.name)
        simulation = Simulation(played, run_dir, Progress(Console(file=said)), "none")
        simulation.set_up()
        simulation.run()
        counted: Counter[str] = Counter()
        for router in simulation.routers:
            counters = router.counters()
            counted.update(counters["frames_received"])
            counted["srs_issued"] += counters["srs_issued"]
        _ask_once(simulation, played.protocol.ur_freshness_s)
        known = {router.node: predicates_of(router.core) for router in simulation.routers}
        simulation.close()
    counted["wrong"] = len(wrong_entries(played.topology, layer, known))
    return counted


def _ask_once(simulation: Simulation, freshness_s: float) -> None:
    """One SR of every router, one after the other, when no answer is fresh any more."""
    agenda = simulation.agenda
    agenda.run(agenda.now + due_ns(freshness_s) + 1, 1_000_000)
    for router in simulation.routers:
        router.handle(RequestUpdate())
        while agenda.next_ns is not None and not router.core.idle:
            agenda.step()
    while agenda.next_ns is not None:
        agenda.step()


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
