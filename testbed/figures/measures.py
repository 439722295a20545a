"""The measurements of a run, in the process that has simulated it."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa

from captures.accounting.direct import Direct
from captures.accounting.direct_tables import experiment_seconds
from captures.rundir.routing_tables import predicate_of, read_routing_tables
from router.predicates.model import Predicate
from testbed.config.model import Experiment
from testbed.figures.floor import perfect_tables


def _pairs(curve: pa.Table) -> list[tuple[float, float]]:
    return list(zip(curve["t_s"].to_pylist(), curve["fraction"].to_pylist(), strict=True))


def false_negatives(run: Direct, experiment: Experiment) -> dict[str, Any]:
    """Figure 11: missed deliveries over 0.25 s, and the time after which none was missed."""
    clock = run.inputs.clock
    second = experiment_seconds(clock, "sent_ns")
    row = run.sql(
        f"select max({second}) filter (missed) as last_miss_s, count(*) filter (expected) as expected, "
        f"count(*) filter (missed) as missed, count(*) filter (missed and {second} > 5) as missed_after_5_s "
        "from outcomes where sent_ns is not null"
    ).to_pylist()[0]
    row["last_miss_s"] = row["last_miss_s"] or 0.0
    return {**row, "nodes": len(experiment.topology.nodes), "curve": _pairs(run.false_negatives())}


def false_positives(run: Direct, experiment: Experiment) -> dict[str, Any]:
    """Figure 12: false positives over 120 s, in steady state (from 1 h on), and those of perfect tables."""
    clock = run.inputs.clock
    second = experiment_seconds(clock, "time_ns")
    row = run.sql(
        f"select avg(false_positive::int) filter ({second} >= 3600) as steady, "
        f"avg(false_positive::int) filter ({second} < 30) as first, "
        f"avg(false_positive::int) filter ({second} >= 3600 and from_network) as steady_from_network "
        "from processed"
    ).to_pylist()[0]
    return {**row, "floor": perfect_tables(experiment, from_s=3600.0), "curve": _pairs(run.false_positives())}


def advertisements(run: Direct, experiment: Experiment) -> dict[str, Any]:
    """Figure 13: RA frames among all frames on links over 120 s; RAs issued a second, from 600 s on."""
    clock = run.inputs.clock
    second = experiment_seconds(clock, "time_ns")
    row = run.sql(
        f"select avg((type = 'RA')::int) filter ({second} >= 600) as share, "
        f"avg((type = 'RA')::int) filter ({second} >= 120) as share_after_first_window "
        "from frames where kind = 'link' and type in ('MSG', 'RA', 'SR', 'UR')"
    ).to_pylist()[0]
    issued = run.sql(
        "select count(*) as n from (select issuer, seq, min(time_ns) as t from frames where type = 'RA' "
        f"group by all having {experiment_seconds(clock, 't')} >= 600)"
    ).to_pylist()[0]["n"]
    end_s = experiment.duration_s
    return {**row, "issued_per_s": issued / (end_s - 600), "curve": _pairs(run.share_of(("RA",)))}


def requests(run: Direct, experiment: Experiment) -> dict[str, Any]:
    """Figure 14: SRs and URs on links a second, in all and over 240 s; a fragmented one counts once."""
    clock = run.inputs.clock
    second = experiment_seconds(clock, "time_ns")
    source = "frames where kind = 'link' and type in ('SR', 'UR') and fragment_index = 0"
    times = run.sql(f"select {second} as t from {source} order by t")["t"].to_pylist()
    # A whole number of periods of 480 and of 600 s.
    begin, end = 2400.0, 4800.0
    rate = sum(begin <= t < end for t in times) / (end - begin)
    width = 240.0
    bins = [0] * max(1, int(experiment.duration_s // width))
    for t in times:
        if 0 <= t < len(bins) * width:
            bins[int(t // width)] += 1
    curve = [((number + 1) * width, count / width) for number, count in enumerate(bins)]
    return {"rate": rate, "frames": len(times), "curve": curve}


def _local_predicates(run: Direct) -> dict[int, Predicate]:
    """The predicates of the applications of each receiver at the end of a run."""
    return {
        node: predicate_of(row)
        for node, rows in read_routing_tables(run.inputs.run).items()
        for row in rows
        if row.get("part") == "local"
    }


def schemes(run: Direct, experiment: Experiment) -> dict[str, Any]:
    """Routing schemes: memory, measured and by formula; traffic; crossings beyond the minimal tree."""
    from captures.accounting.schemes import held
    from testbed.controller.trees import LAYERS
    from testbed.figures.scheme_memory import predicted, predicted_by_alpha

    summary = run.summary()
    state, frames, size = summary["state"], summary["frames_by_type"], summary["bytes_by_type"]
    sizes = {
        row["node"]: row["value"]
        for row in held(run.inputs).to_pylist()
        if row["part"] == "local" and row["unit"] == "filters"
    }
    topology = experiment.topology
    forest = LAYERS[experiment.broadcast.layer](topology, frozenset(), frozenset())
    formula = predicted(forest, sizes, run.inputs.senders)
    scheme = experiment.routing.scheme
    filters = state["forwarding_senders_filters"]
    by_alpha: dict[str, float] = {}
    if experiment.protocol.covering == "full":
        by_alpha = predicted_by_alpha(
            forest, _local_predicates(run), run.inputs.senders, random.Random(experiment.seed)
        )
    changes = run.sql(
        "select count(*) as n from (select distinct issuer, seq from frames where type = 'RA')"
    ).to_pylist()[0]["n"]
    crossed = summary["message_crossings"]
    return {
        "holds": int(summary["verdict"] == "holds"),
        "missed": summary["false_negatives_after_convergence"],
        "filters": filters,
        "filters_all": state["forwarding_filters"],
        "formula": formula[scheme],
        "ratio": filters / formula[scheme] if formula[scheme] else None,
        "by_alpha": filters / by_alpha[scheme] if by_alpha.get(scheme) else None,
        "by_mean_alpha": filters / by_alpha["pif by mean"] if by_alpha and scheme == "pif" else None,
        "n_squared": filters / (len(topology.nodes) ** 2 * sum(sizes.values())) if sizes else None,
        "bytes": state["forwarding_senders_bytes"],
        "rib_filters": state["rib_filters"],
        "table_bytes": state["broadcast_bytes"],
        "unicast_bits": state["unicast_bits"],
        "excess": summary["excess_crossings"],
        "crossings": crossed["cbcb"],
        "minimal": crossed["minimal"],
        "ra_frames": frames["RA"],
        "ra_bytes": size["RA"],
        "ra_frames_each": frames["RA"] / changes if changes else None,
        "msg_bytes": size["MSG"],
        "msg_bytes_each": size["MSG"] / frames["MSG"] if frames["MSG"] else None,
        "false_positives": summary["false_positives_from_network"],
        "delay_s": summary["delivery_delay"]["mean_s"],
    }
