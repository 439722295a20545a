"""The measurements of a run, in the process that has simulated it."""

from __future__ import annotations

import math
import random
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa

from captures.accounting.direct import Direct
from captures.accounting.schemes import SENDERS
from captures.accounting.texts import experiment_seconds
from captures.rundir.inputs import SIMULATED
from captures.rundir.routing_tables import ROUTING_TABLES
from testbed.controller.trees import LAYERS, hops_on_trees
from testbed.evaluation.figures import KEPT_POINTS
from testbed.evaluation.figures.floor import STEADY_S, spread_of
from testbed.evaluation.figures.scheme_memory import local_predicates, predicted, predicted_by_alpha
from testbed.experiments.config import Experiment
from testbed.sim.wires import HOP_NS


def _pairs(
    curve: pa.Table, column: str = "fraction", *, end_s: float = math.inf
) -> list[tuple[float, float]]:
    """Returns (t, value), at most `KEPT_POINTS`, of the windows that end by `end_s`."""
    points = zip(curve["t_s"].to_pylist(), curve[column].to_pylist(), strict=True)
    whole = [(t, value) for t, value in points if t <= end_s]
    return whole[:: 1 + len(whole) // KEPT_POINTS]


def false_negatives(run: Direct, experiment: Experiment) -> dict[str, Any]:
    """Figure 11: missed deliveries over 0.25 s, and the time after which none was missed.

    Times are those since the receivers have set their first predicates.
    """
    workload = experiment.workload
    first_s = 0.0 if workload is None else workload.first_predicate_s
    second = f"{experiment_seconds(run.inputs.clock, 'sent_ns')} - {first_s}"
    row = run.sql(
        f"select max({second}) filter (missed) as last_miss_s, count(*) filter (expected) as expected, "
        f"count(*) filter (missed) as missed, count(*) filter (missed and {second} > 5) as missed_after_5_s, "
        f"count(*) filter (expected and {second} > 5) as expected_after_5_s "
        "from outcomes where sent_ns is not null"
    ).to_pylist()[0]
    row["last_miss_s"] = row["last_miss_s"] or 0.0
    curve = [(t - first_s, share) for t, share in _pairs(run.table("false_negative_curve"))]
    return {**row, "settled_s": settled_s(run, experiment), "curve": curve}


def settled_s(run: Direct, experiment: Experiment) -> float | None:
    """Returns when the routers of all senders have the RAs of all receivers, s after the first predicates.

    None: in an emulation, where links have no declared delay.
    """
    topology, inputs = experiment.topology, run.inputs
    delays = {link.delay_ms or 0.0 for link in topology.links}
    senders, receivers = sorted(inputs.senders), sorted(inputs.log.first_predicates)
    simulated = inputs.manifest["datapath"] == SIMULATED
    if not simulated or len(delays) != 1 or not senders or not receivers:
        return None
    hops = hops_on_trees(topology, LAYERS[experiment.broadcast.layer], frozenset(), frozenset())
    return float(hops[np.ix_(senders, receivers)].max()) * (HOP_NS / 1e9 + delays.pop() / 1e3)


def false_positives(run: Direct, experiment: Experiment) -> dict[str, Any]:
    """Figure 12: false positives over 120 s, in steady state, and those of perfect tables.

    The steady state begins after 1 h, in a shorter run after 60 s. `above` is the share in steady state less
    that of perfect tables, `rise` the share of the first 600 s less that in steady state, `drift` that of the
    second half of the steady state less that of the first, and `drift_above` the same of `above`.
    """
    steady_s = STEADY_S if experiment.duration_s > STEADY_S else 60.0
    middle_s = (steady_s + experiment.duration_s) / 2
    parts = {
        "steady": f"t_s >= {steady_s}",
        "first_half": f"t_s >= {steady_s} and t_s < {middle_s}",
        "second_half": f"t_s >= {middle_s}",
        "early": "t_s < 600",
    }
    columns = ", ".join(f"avg(false_positive::int) filter ({part}) as {key}" for key, part in parts.items())
    row = run.sql(f"select {columns} from processed").to_pylist()[0]
    # A message is still processed after the end of the workload: later windows are not full.
    curve = _pairs(run.table("false_positive_curve"), end_s=experiment.duration_s)
    missed = run.summary()["false_negatives_after_convergence"]
    halves = spread_of(experiment, steady_s, middle_s)
    processed, wasted = halves.sum(axis=0).tolist()
    floor = wasted / processed
    row |= {"above": row["steady"] - floor, "rise": row["early"] - row["steady"]}
    row["drift"] = row.pop("second_half") - row.pop("first_half")
    of_floor = [wasted / processed for processed, wasted in halves.tolist()]
    row["drift_above"] = row["drift"] - (of_floor[1] - of_floor[0])
    return {**row, "missed": missed, "floor": floor, "curve": curve}


def advertisements(run: Direct, experiment: Experiment) -> dict[str, Any]:
    """Figure 13: RA frames among all frames on links over 120 s; RAs issued a second, from 600 s on.

    Nothing counts that is sent after the end of the workload, when RAs that wait are still issued.
    """
    end_s = experiment.duration_s

    def within(column: str, from_s: float = 600) -> str:
        second = experiment_seconds(run.inputs.clock, column)
        return f"{second} >= {from_s} and {second} < {end_s}"

    curve = _pairs(run.table("control_share_curve"), "ra_fraction", end_s=end_s)
    row = run.sql(
        f"select avg((type = 'RA')::int) filter ({within('time_ns')}) as share, "
        f"avg((type = 'RA')::int) filter ({within('time_ns', 120)}) as share_after_first_window "
        "from frames where kind = 'link' and type in ('MSG', 'RA', 'SR', 'UR')"
    ).to_pylist()[0]
    issued = run.sql(
        "select count(*) as n from (select issuer, seq, min(time_ns) as t from frames where type = 'RA' "
        f"group by all having {within('t')})"
    ).to_pylist()[0]["n"]
    missed = run.sql(
        f"select avg(missed::int) as share from outcomes where expected and {within('sent_ns')}"
    ).to_pylist()[0]["share"]
    return {
        **row,
        "issued_per_s": issued / (end_s - 600),
        "missed": missed,
        "curve": curve,
    }


def requests(run: Direct, experiment: Experiment) -> dict[str, Any]:
    """Figure 14: SRs and URs on links a second, in all and over 240 s; a fragmented one counts once."""
    second = experiment_seconds(run.inputs.clock, "time_ns")
    source = "frames where kind = 'link' and type in ('SR', 'UR') and fragment_index = 0"
    times = run.sql(f"select {second} as t from {source}")["t"].to_pylist()
    # Whole numbers of periods of 600 s, and from 4,800 s on of 480 s as well.
    span = min(2400.0, max(600.0, experiment.duration_s // 1200 * 600))
    halves = [sum(begin <= t < begin + span for t in times) / span for begin in (0.0, span)]
    width = 240.0
    counts = Counter(t // width for t in times)
    bins = range(max(1, int(experiment.duration_s // width)))
    curve = [((number + 1) * width, counts[number] / width) for number in bins]
    return {"rate": halves[1], "rate_before": halves[0], "frames": len(times), "curve": curve}


def schemes(run: Direct, experiment: Experiment) -> dict[str, Any]:
    """Routing schemes: memory, measured and by formula; traffic; crossings beyond the minimal tree."""
    summary = run.summary()
    state, crossed = summary["state"], summary["message_crossings"]
    size, host = summary["bytes_by_type"], summary["bytes_by_type_host_links"]
    sizes: dict[str, dict[int, int]] = {}
    for row in run.sql("select node, unit, value from held where part = 'local'").to_pylist():
        sizes.setdefault(row["unit"], {})[row["node"]] = row["value"]
    topology, scheme = experiment.topology, experiment.routing.scheme
    tables = ROUTING_TABLES.read(run.inputs.run)
    forest = LAYERS[experiment.broadcast.layer](topology, frozenset(), frozenset())
    found: dict[str, Any] = {
        "holds": int(summary["verdict"] == "holds"),
        "reason": next(iter(summary["verdict_reasons"]), None),
        "missed": summary["false_negatives_after_convergence"],
        "excess": summary["excess_crossings"],
        "crossings": crossed["cbcb"],
        "minimal": crossed["minimal"],
        "table_bytes": state["broadcast_bytes"],
        "filters_all": state["forwarding_filters"],
        "sr_ur_bytes": size["SR"] + size["UR"],
        "ra_bytes": size["RA"],
        "controller_bytes": sum(host[each] for each in ("TABLE", "COMMIT", "ACK") if each in host),
        "msg_bytes": size["MSG"],
    }
    for unit, of_node in sizes.items():
        formula = predicted(forest, of_node, run.inputs.senders)[scheme]
        found[unit] = state[f"{SENDERS}_{unit}"]
        found[f"{unit}_ratio"] = found[unit] / formula if formula else None
    if experiment.protocol.covering == "full":
        by_alpha = predicted_by_alpha(
            forest, local_predicates(tables), run.inputs.senders, random.Random(experiment.seed)
        )
        for unit, value in by_alpha.get(scheme, {}).items():
            found[f"by_alpha_{unit}"] = found[unit] / value
    return found
