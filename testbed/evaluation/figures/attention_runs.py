"""One run of figure 2 of the attention paper: simulated, judged and counted without files of its traffic."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from captures.accounting.attention import overload, received, service_keys
from captures.rundir.oracle import filters_of
from testbed.controller.trees import LAYERS
from testbed.evaluation.figures.attention import prediction
from testbed.experiments.config.load import load_experiment
from testbed.experiments.config.model import Experiment
from testbed.experiments.config.shipped import find_experiment
from testbed.results.conclude import starvation_expected
from testbed.results.folders import new_run_folder
from testbed.results.oracle.attention.history import Collector
from testbed.results.oracle.attention.judge import Judged, judge, undecided_by
from testbed.sim.simulation import Simulation, uncollected
from testbed.terminal.progress import Progress


class _Records:
    """Takes the records of the service where a run folder would keep them."""

    def __init__(self) -> None:
        self.collector = Collector(filters_of)

    def write(self, t_ns: int, node: int, app: str | None, record: Mapping[str, Any]) -> None:
        """As `router.records.attention.ServiceRecords.write`."""
        del t_ns
        self.collector.take({**record, "node": node, "app": app})


def measured(facts: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Returns the measurements of a run.

    Args:
        facts: `base`, a shipped experiment, `strategy` and `max`; and the values of further keys, by dotted
            names, under `overrides`, which may be absent.
    """
    overrides = {
        "seed": str(seed),
        "service.strategy": facts["strategy"],
        "workload.attention.max": str(facts["max"]),
        **facts.get("overrides", {}),
    }
    experiment = load_experiment(find_experiment(facts["base"]), overrides)
    judged, counters, cost = _simulated(experiment)
    found = service_keys(judged.summary, received(counters), overload(counters))
    return {
        **{key: value for key, value in found.items() if isinstance(value, int | float)},
        **{
            f"{key}.{name}": count
            for key in ("outcomes", "deliveries_from")
            for name, count in found[key].items()
        },
        "violations": sum(found["violations"].values()),
        "got_remote": sum(each.got_remote for each in judged.results),
        **_predicted(experiment),
        **cost,
    }


def _simulated(
    experiment: Experiment,
) -> tuple[Judged, Mapping[int, Mapping[str, Any]], dict[str, float]]:
    """Returns the oracle's answers, the counters of the routers, and what the simulation took."""
    records, nodes = _Records(), len(experiment.topology.nodes)
    progress = Progress(Console(quiet=True))
    with uncollected(), tempfile.TemporaryDirectory(prefix="cbcb-figure-") as folder:
        simulation = Simulation(
            experiment,
            new_run_folder(Path(folder), experiment.name),
            progress,
            "none",
            service_records=records,
        )
        try:
            simulation.set_up()
            begin_s = simulation.agenda.now_s
            started = time.process_time()
            simulation.run()
            cost = {"run_cpu_s": time.process_time() - started}
            counters = {router.node: router.counters() for router in simulation.routers}
        finally:
            simulation.close()
    history = records.collector.history()
    judged = judge(
        history,
        LAYERS[experiment.broadcast.layer](experiment.topology, frozenset(), frozenset()),
        nodes,
        end_s=begin_s + experiment.duration_s,
        window_s=experiment.oracle.in_flight_window_s * experiment.virtual_rate,
        undecided=starvation_expected(experiment, experiment.virtual_rate) or undecided_by(counters.values()),
    )
    return judged, counters, cost


def _predicted(experiment: Experiment) -> dict[str, float]:
    options = experiment.attention
    assert options is not None
    buffer = experiment.service.of_kind.cache_publications
    return prediction(options, len(experiment.topology.nodes), experiment.duration_s, buffer)
