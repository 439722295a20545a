"""Figure 2 of the attention paper: bandwidth saved, control traffic and starvation by Max (section 5.2).

Runs are simulated, judged and counted without files of their traffic.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import inf
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from captures.accounting.direct import Direct
from captures.accounting.traffic import overload, received, service_keys
from captures.rundir.oracle import Judgement, filters_of
from router.protocol.services.attention.service import Attention as AttentionService
from testbed.controller.trees import LAYERS
from testbed.evaluation.figures.reproduction import Case, Panel, Reproduction, Results, Statement, Table
from testbed.experiments.config import Experiment
from testbed.experiments.config.load import find_experiment, load_experiment
from testbed.experiments.workload.attention import Fluid
from testbed.results.conclude import starvation_expected
from testbed.results.folders import new_run_folder
from testbed.results.oracle.attention import UNKNOWN, Collector, History
from testbed.results.oracle.attention.judge import judge, undecided_by
from testbed.sim import NS
from testbed.sim.simulation import Simulation
from testbed.support.usage import uncollected
from testbed.terminal.progress import Progress

#: Strategy -> the saved bandwidth that the paper reports.
PAPER_SAVES = {"eon": 0.85, "pdp": 0.80}
#: Values of Max, in table 1's workload and in the small one.
_PAPER = (10, 20, 50, 200, 5000)
_SMALL = (10, 20, 50, 100, 200, 400)
_EMULATED = (10, 50, 200)
_EXACT, _SEQUENTIAL = {"service.history": "exact"}, {"service.fan_out": "sequential"}
_ANY_P = {"workload.attention.normalised": "false"}
_FRESHNESS, _RENEWED = "workload.attention.freshness_s", "workload.attention.refresh_probability"
#: What follows the strategy in the name of a curve -> the keys of its runs, and their greatest Max: where the
#: paper saves most, or one beyond which little is saved.
_READINGS: Mapping[str, tuple[Mapping[str, str], float]] = {
    "": ({}, inf),
    ", exact history": (_EXACT, 50),
    ", sequential": (_SEQUENTIAL, 50),
    ", divided": ({"service.fan_out": "divided"}, 10),
    ", exact history, sequential": (_EXACT | _SEQUENTIAL, 10),
    ", p_i not normalised": (_ANY_P, 10),
    ", p_i not normalised, sequential": (_ANY_P | _SEQUENTIAL, 10),
    ", warm caches": ({"workload.attention.subscriptions_from_s": "500"}, 10),
    ", freshness 50 s": ({_FRESHNESS: "50"}, 10),
    ", P_r 0.25": ({_RENEWED: "0.25"}, 10),
    ", P_r 0.75": ({_RENEWED: "0.75"}, 10),
}
#: Size -> how many of them it has. Seconds are those of table 1.
_OF_SIZE = {"small": 3, "paper": None, "emulated": 1}
#: Heading of a column -> the key of the measurement, and the factor of its unit.
_COLUMNS = {
    "saved, %": ("saved_bandwidth", 100),
    "control, %": ("control_overhead", 100),
    "in excess": ("overload", 1),
    "entries, %": ("entries_share", 100),
    "delay, s": ("delay_s", 1),
}
#: Tolerances of the specification.
_SAVED = {"eon": (0.80, 0.92), "pdp": (0.75, 0.90)}
_NOISE = 0.03
_CONTROL = 0.03
_STARVED = 0.01
#: Samples of the tables of a run.
_SAMPLES = 21
#: A saving above which the paper's "wide range of selectivity values" is taken to reach.
_WIDE = 0.3


def _curves(results: Results) -> dict[str, dict[int, Case]]:
    """Returns name of a curve ("EON", "EON, exact history", ...) -> Max, ascending -> case."""
    found: dict[str, dict[int, Case]] = {}
    for case in results:
        keys = case.facts.get("overrides", {})
        (reading,) = (name for name, (each, _) in _READINGS.items() if each == keys)
        found.setdefault(case.facts["strategy"].upper() + reading, {})[case.facts["max"]] = case
    return found


def _medians(results: Results, cases: Mapping[int, Case], key: str) -> dict[int, float]:
    """Returns the medians of a measurement by Max; without a Max of which all runs failed."""
    return {most: results.median(case, key) for most, case in cases.items() if results.runs(case)}


def safety(results: Results) -> Statement:
    """Returns the statement that the oracle found no delivery that breaks a safety rule."""
    counts = [count for case in results for count in results.values(case, "violations")]
    return Statement(
        "No delivery of a run breaks a safety rule",
        "0",
        f"{sum(counts):.0f} in {len(counts)} runs",
        bool(counts) and not any(counts),
    )


class Attention(Reproduction, page="attention"):
    measure = "testbed.evaluation.figures.attention:measured"
    calculates = True
    measure_emulated = "testbed.evaluation.figures.attention:measured_emulated"
    emulated_scale = 4.0
    sizes = ("small", "paper", "emulated")

    def cases(self, size: str) -> list[Case]:
        base = "diallo" if size == "paper" else "diallo-small"
        every = {"small": _SMALL, "paper": _PAPER, "emulated": _EMULATED}[size]
        return [
            Case(
                f"{strategy}, Max {most}{reading}",
                facts={"base": base, "strategy": strategy, "max": most}
                | ({"overrides": dict(keys)} if keys else {}),
            )
            for reading, (keys, greatest) in [*_READINGS.items()][: _OF_SIZE[size]]
            for strategy in PAPER_SAVES
            for most in every
            if most <= greatest
        ]

    def overrides(self, case: Case, engine: str) -> dict[str, str]:
        if engine == "simulate":
            return {}
        # Of PDP, `beta_s`, a second of the experiment, must not be less than this wall time.
        clock = {"time_scale": str(self.emulated_scale), "oracle.in_flight_window_s": "0.25"}
        return _overrides(case.facts) | clock

    def judge(self, results: Results) -> Iterator[Statement]:
        curves = _curves(results)
        for name, cases in curves.items():
            overrides = next(iter(cases.values())).facts.get("overrides", {})
            # The paper claims its numbers for freshness 1000 and P_r 0.5 alone.
            if not overrides.keys() & {_FRESHNESS, _RENEWED} and any(map(results.runs, cases.values())):
                yield from _of_curve(results, name, cases)
        eon, pdp = curves["EON"], curves["PDP"]
        key = "control_crossings"
        gaps = {most: results.differences(eon[most], key, pdp[most]) for most in eon if most in pdp}
        least = min(gaps)
        text = f"PDP has less control traffic than EON at Max {least}"
        yield Statement.by_interval(text, "EON - PDP above 0", gaps[least].values(), 0, unit="crossings")
        yield Statement.by_interval(
            "EON's notifications become fewer as Max grows",
            "EON - PDP falls from each Max to the next",
            _greatest_step(gaps),
            high=0,
            unit="crossings, the greatest rise",
        )
        yield safety(results)

    def tables(self, results: Results) -> list[Table]:
        columns = [f"{strategy.upper()}: {name}" for strategy in PAPER_SAVES for name in _COLUMNS]
        cases = {case.label: case for case in results if results.values(case, "entries")}
        rows = []
        for reading in _READINGS:
            found = [cases.get(f"{strategy}, Max {_PAPER[0]}{reading}") for strategy in PAPER_SAVES]
            if any(found):
                cells = [
                    f"{results.median(case, key) * by:.3g}" if case else "no run"
                    for case in found
                    for key, by in _COLUMNS.values()
                ]
                rows.append([reading.removeprefix(", ") or "as shipped", *cells])
        return [Table("Medians at the least Max; shares are of CBR's", ("", *columns), rows)]

    def panels(self, results: Results) -> list[Panel]:
        curves = _curves(results)
        predicted = {most: _fluid(case.facts).saved_bandwidth() for most, case in curves["EON"].items()}
        saves = {f"paper: {strategy.upper()}": share for strategy, share in PAPER_SAVES.items()}
        shown: Sequence[tuple[str, str, str, Mapping[str, float]]] = (
            ("saved_bandwidth", "(a) saved bandwidth", "saved against CBR", saves),
            ("control_overhead", "(b) control", "share of CBR's", {"paper: at most": _CONTROL}),
            ("starvation", "(c) starvation", "starved rounds", {"paper: at most": _STARVED}),
            ("entries_share", "(d) active entries of tables", "share of CBR's", {"CBR": 1.0}),
            ("delay_s", "(e) age of a publication when delivered", "s", {}),
        )
        found = []
        for key, title, y, paper in shown:
            # What has one Max alone is in the table.
            drawn = {
                name: results.curves_over(cases.values(), "max", key)
                for name, cases in curves.items()
                if len(cases) > 1
            }
            if key == "saved_bandwidth":
                drawn["fluid model"] = [[(float(most), share) for most, share in predicted.items()]]
            # Emulations do not measure tables and delays.
            if any(drawn.values()):
                found.append(Panel(title, y, drawn, x="Max", paper=paper, percent=y != "s", points=True))
        return found


def _of_curve(results: Results, name: str, cases: Mapping[int, Case]) -> Iterator[Statement]:
    saved = _medians(results, cases, "saved_bandwidth")
    least, best = next(iter(cases)), max(saved, key=lambda most: saved[most])
    facts = cases[best].facts
    low, high = _SAVED[facts["strategy"]]
    judged = facts["base"] == "diallo"
    saves = asks = ""
    # The fluid model knows the service as shipped alone.
    if "overrides" not in facts:
        saves = f"; fluid model {_fluid(facts).saved_bandwidth():.0%}"
        asks = f"; SUBs alone, fluid model {_fluid(cases[least].facts).control_share():.2%}"
    yield Statement.by_interval(
        f"{name}: saves up to {PAPER_SAVES[facts['strategy']]:.0%} of bandwidth",
        f"{low:.0%} to {high:.0%}{saves}",
        results.values(cases[best], "saved_bandwidth"),
        *(low, high),
        unit=f"% at Max {best}",
        judged=judged,
    )
    if len(cases) > 1:
        yield Statement.by_interval(
            f"{name}: a larger Max favours CBR",
            f"falls from each Max to the next, but for {_NOISE:.0%}",
            _greatest_step({most: results.by_seed(case, "saved_bandwidth") for most, case in cases.items()}),
            high=_NOISE,
            unit="points, the greatest rise",
        )
    wide = [most for most in saved if most == least or saved[most] > _WIDE]
    worst = max(wide, key=lambda most: results.median(cases[most], "starvation"), default=least)
    yield Statement.by_interval(
        f"{name}: over 99 % satisfied at Max {least}, and wherever it saves over {_WIDE:.0%}",
        f"at most {_STARVED:.0%} starved",
        results.values(cases[worst], "starvation"),
        high=_STARVED,
        unit=f"% at Max {worst}",
    )
    yield Statement.by_interval(
        f"{name}: under 3 % of CBR's control traffic at Max {least}",
        f"at most {_CONTROL:.0%}{asks}",
        results.values(cases[least], "control_overhead"),
        high=_CONTROL,
        unit="%",
        judged=judged,
    )


def _greatest_step(of: Mapping[int, Mapping[int, float]]) -> list[float]:
    """Returns the greatest changes, by seed, from one Max to the next; `of` is Max -> seed -> number."""
    steps = (
        [after[seed] - value for seed, value in before.items() if seed in after]
        for before, after in pairwise(filter(None, of.values()))
    )
    return max(filter(None, steps), key=median, default=[])


def _overrides(facts: Mapping[str, Any]) -> dict[str, str]:
    strategy, most = facts["strategy"], str(facts["max"])
    return {"service.strategy": strategy, "workload.attention.max": most, **facts.get("overrides", {})}


def _experiment(facts: Mapping[str, Any], seed: int) -> Experiment:
    return load_experiment(find_experiment(facts["base"]), _overrides(facts) | {"seed": str(seed)})


def _fluid(facts: Mapping[str, Any]) -> Fluid:
    experiment = _experiment(facts, 1)
    assert experiment.attention is not None
    buffer = experiment.service.of_kind.cache_publications
    return Fluid(experiment.attention, len(experiment.topology.nodes), experiment.duration_s, buffer)


def measured(facts: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Returns the measurements of a run.

    Args:
        facts: `base`, a shipped experiment, `strategy` and `max`; and the values of further keys, by dotted
            names, under `overrides`, which may be absent.
    """
    experiment = _experiment(facts, seed)
    judgement, history, counters, samples = _simulated(experiment)
    found = service_keys(judgement, received(counters), overload(counters))
    return _numbers(found) | _tables_and_delays(history, samples, len(experiment.topology.nodes))


def measured_emulated(run: Direct, experiment: Experiment) -> dict[str, Any]:
    """Returns the measurements of an emulation, without those of its tables and delays."""
    del experiment
    return _numbers(run.summary()["attention"])


def _numbers(found: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the numbers of the key `attention` of a summary, and all violations."""
    numbers = {key: value for key, value in found.items() if isinstance(value, int | float)}
    return numbers | {"violations": sum(found["violations"].values())}


def _simulated(
    experiment: Experiment,
) -> tuple[Judgement, History, Mapping[int, Mapping[str, Any]], dict[float, int]]:
    """Returns the oracle's answers, the records, the counters of the routers, and the active entries of all
    tables by time in seconds of the routers' clock.
    """
    samples: dict[float, int] = {}

    def take(_t_ns: int, node: int, app: str | None, record: Mapping[str, Any]) -> None:
        collector.take({**record, "node": node, "app": app})

    def sample() -> None:
        services = (router.core.service for router in simulation.routers)
        tables = (service.state.table for service in services if isinstance(service, AttentionService))
        samples[simulation.agenda.now_s] = sum(entry.active for table in tables for entry in table)

    assert experiment.attention is not None
    # The middle half of the run, without what precedes the subscriptions.
    first = max(0.25, experiment.attention.subscriptions_from_s / experiment.duration_s)
    collector, rate = Collector(filters_of), experiment.virtual_rate
    with uncollected(), tempfile.TemporaryDirectory(prefix="cbcb-figure-") as folder:
        run = new_run_folder(Path(folder), experiment.name)
        simulation = Simulation(experiment, run, Progress(), "none", service_records=take)
        try:
            simulation.set_up()
            begin_s, begin = simulation.agenda.now_s, simulation.agenda.now
            for share in np.linspace(first, max(0.75, (1 + first) / 2), _SAMPLES):
                simulation.agenda.at(begin + round(share * experiment.duration_s / rate * NS), sample)
            simulation.run()
            counters = {router.node: router.counters() for router in simulation.routers}
        finally:
            simulation.close()
    history = collector.history()
    judgement, _ = judge(
        history,
        LAYERS[experiment.broadcast.layer](experiment.topology, frozenset(), frozenset()),
        end_s=begin_s + experiment.duration_s,
        window_s=experiment.oracle.in_flight_window_s * rate,
        undecided=starvation_expected(experiment, rate) or undecided_by(counters.values()),
    )
    return judgement, history, counters, samples


def _tables_and_delays(history: History, samples: Mapping[float, int], nodes: int) -> dict[str, float]:
    """Returns the mean active entries of a router, their share of CBR's, and the mean age at a delivery.

    A router of CBR has an entry for each subscription of another router in its lifetime.
    """
    active = sum(each.begin_s <= at_s < each.deadline_s for at_s in samples for each in history.rounds)
    known = history.publication_of != UNKNOWN
    ages = history.delivered_s[known] - history.uploaded_s[history.publication_of[known]]
    entries = sum(samples.values())
    return {
        "entries": entries / len(samples) / nodes,
        "entries_share": entries / max(1, active * (nodes - 1)),
        "delay_s": float(ages.mean()) if len(ages) else 0.0,
    }
