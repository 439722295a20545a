"""Simulated runs of the attention-limited service: events, judgement, accounting, comparison with CBR."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

import pytest

from captures.accounting.direct import Direct, flat
from captures.rundir.applications import read_attention
from captures.rundir.inputs import read_topology
from captures.rundir.measures import read_routers_counters
from captures.rundir.oracle import SUBSCRIPTIONS
from router.protocol.services.attention.dissemination import FanOut, StrategyName
from testbed.controller.trees import hops_on_trees, spt_trees
from testbed.emulation.run.demand import estimate
from testbed.evaluation.figures.attention import _simulated, measured
from testbed.evaluation.figures.rules import EXAMPLES
from testbed.experiments.config import Experiment
from testbed.experiments.config.hop_limit import load_checked
from testbed.experiments.config.load import find_experiment, load_experiment
from testbed.experiments.config.schema import ExperimentError
from testbed.experiments.workload import Workload
from testbed.experiments.workload.attention import Demand
from testbed.results.conclude import judge_run, starvation_expected
from testbed.results.trace import publications
from testbed.support.errors import InputError
from tests.support.attention_experiment import DELIVERIES, deliveries, experiment, outcomes, records
from tests.support.cases import cases_beside
from tests.support.exhaustive_cost import cost_of
from tests.support.simulated import judged_run, simulated

#: A fifth of `diallo-small`.
_SMALL = {
    "duration_s": "40",
    "topology.nodes": "12",
    "service.record_caches": "true",
    "workload.attention.events": "8",
    "workload.attention.subscriptions": "80",
    "workload.attention.publications": "1500",
    "workload.attention.lifetime_s": "10",
}


def _experiment(**overrides: str) -> Experiment:
    more = {key.replace("__", "."): value for key, value in overrides.items()}
    return load_experiment(find_experiment("diallo-small"), _SMALL | more)


@pytest.fixture(scope="module", params=["eon whole", "pdp whole", "eon sequential", "pdp sequential"])
def ran(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    strategy, fan_out = request.param.split()
    experiment = _experiment(service__strategy=strategy, service__fan_out=fan_out)
    run = judged_run(experiment, tmp_path_factory.mktemp(strategy))
    with Direct(run.path) as direct:
        yield experiment, run, direct, direct.summary()


def test_verdict_holds_and_nothing_starves(ran: Any) -> None:
    _, _, _, summary = ran
    assert (summary["verdict"], summary["verdict_reasons"]) == ("holds", [])
    found = summary["attention"]
    assert set(found["violations"].values()) == {0}
    assert found["undecided"] is None
    assert (found["starved_decided"], found["outcomes"]["starved"]) == (0, 0)
    assert found["outcomes"]["satisfied"] > 100
    assert found["starvation"] == 0


@pytest.mark.parametrize("strategy", get_args(StrategyName))
def test_sequential_subs_that_come_back_late_leave_starvation_decided(
    tmp_path: Path, strategy: StrategyName
) -> None:
    """With delays, a SUB comes back after its round was satisfied, or after it was repeated."""
    delays = {"links__delay_ms": "100", "oracle__in_flight_window_s": "1", "service__beta_s": "2"}
    late = _experiment(service__fan_out="sequential", service__strategy=strategy, **delays)
    run = judged_run(late, tmp_path)
    with Direct(run.path) as direct:
        summary = direct.summary()
    found, counters = summary["attention"], read_routers_counters(run).values()
    assert sum(each["dropped"].get("sub_old", 0) for each in counters) > 0
    assert (found["undecided"], found["starved_decided"], summary["verdict"]) == (None, 0, "holds")


def test_traffic_is_that_of_the_captures(ran: Any) -> None:
    experiment, _, _, summary = ran
    found, frames = summary["attention"], summary["frames_by_type"]
    assert found["publication_crossings"] == frames["PUB"] > 0
    assert found["control_crossings"] == frames["SUB"] + frames.get("OVERLOAD", 0) > 0
    cost = cost_of(Demand.of(experiment), spt_trees(experiment.topology))
    assert found["cbr_control"] == cost.control_crossings == 11 * found["registrations"]
    assert found["cbr_crossings"] == cost.publication_crossings
    saved = cost.publication_crossings - frames["PUB"]
    assert found["saved_bandwidth"] == saved / cost.publication_crossings > 0.3
    assert (frames.get("OVERLOAD", 0) > 0) == (experiment.service.of_kind.strategy == "eon")
    assert found["notification_crossings"] == frames.get("OVERLOAD", 0)
    assert found["saved_with_flushes"] == found["saved_bandwidth"]


def test_rounds_agree_with_the_records(ran: Any) -> None:
    """The oracle counts deliveries by itself; the routers report them at the end of each round."""
    _, run, _, _ = ran
    judged = {
        (each["node"], each["subscription"], each["round"]): each for each in SUBSCRIPTIONS.read_all(run)
    }
    ended = [record for _, record in read_attention(run) if record["event"] == "outcome"]
    assert len(ended) > 100
    for record in ended:
        each = judged[record["node"], record["subscription"], record["round"]]
        assert (each["got"], each["got_remote"]) == (record["got"], record["got_remote"])
        assert (each["filled_s"] is not None) == (record["outcome"] == "satisfied")


def test_tables_add_up(ran: Any) -> None:
    _, _, direct, summary = ran
    attention = summary["attention"]
    rounds, uploads, deliveries, changes, bins = (
        direct.table(name).to_pylist()
        for name in ("subscriptions", "publications", "publication_deliveries", "index_changes", "cache_bins")
    )
    assert len(rounds) == attention["registrations"]
    assert len(uploads) == attention["publications"] == 1500
    assert sum(each["deliveries"] for each in uploads) == attention["deliveries"] == len(deliveries)
    assert Counter(each["whence"] for each in deliveries) == +Counter(attention["deliveries_from"])
    got = Counter((each["node"], each["subscription"], each["round"]) for each in deliveries)
    assert got == +Counter(
        {(each["node"], each["subscription"], each["round"]): each["got"] for each in rounds}
    )
    assert all(0 <= each["age_s"] <= each["t_s"] for each in deliveries)
    last = {(row["node"], row["index"]): row["size"] for row in bins}
    assert sum(last.values()) == sum(row["entered"] - row["left"] for row in bins) > 0
    assert min(row["size"] for row in bins) >= 0
    assert sum(row["entered"] for row in bins) == sum(each["after"] is not None for each in changes)
    assert 0 < sum(row["hits"] for row in bins) <= attention["deliveries"]
    curve = direct.table("attention_curve")
    bin_s = direct.inputs.bin_s
    assert sum(curve["publications_per_s"].to_pylist()) * bin_s == pytest.approx(1500)
    assert sum(curve["deliveries_per_s"].to_pylist()) * bin_s == pytest.approx(attention["deliveries"])


def test_a_full_cache_leaves_starvation_open(tmp_path: Path) -> None:
    experiment = _experiment(service__cache_publications="2", workload__attention__max="30")
    with Direct(judged_run(experiment, tmp_path).path) as direct:
        found = direct.summary()["attention"]
    assert found["undecided"] is not None
    assert "evicted" in found["undecided"]
    assert set(found["violations"].values()) == {0}


def test_flushes_are_traffic(tmp_path: Path) -> None:
    experiment = _experiment(service__cache_publications="5", service__flushing="neighbour")
    with Direct(judged_run(experiment, tmp_path).path) as direct:
        summary = direct.summary()
    found, frames = summary["attention"], summary["frames_by_type"]
    assert found["flush_crossings"] == frames["FLUSH"] > 0
    sent = frames["PUB"] + frames["FLUSH"]
    assert found["saved_with_flushes"] == (found["cbr_crossings"] - sent) / found["cbr_crossings"]
    assert found["saved_with_flushes"] < found["saved_bandwidth"]


def test_a_measured_run_of_the_figures_is_the_accounted_run(ran: Any) -> None:
    """It keeps no file, and counts the frames that routers received in place of captured ones."""
    experiment, _, _, summary = ran
    facts = {"base": "diallo-small", "strategy": experiment.service.of_kind.strategy, "max": 10}
    overrides = {**_SMALL, "service.fan_out": experiment.service.of_kind.fan_out}
    found = measured({**facts, "overrides": overrides}, 1)
    expected = flat(summary["attention"])
    shared = found.keys() & expected.keys()
    assert {"saved_bandwidth", "saved_with_flushes", "overload", "starvation"} <= shared
    assert {key: found[key] for key in shared} == {key: expected[key] for key in shared}


def test_the_traffic_is_about_that_of_the_estimate(ran: Any) -> None:
    """Within a factor of two; sequential SUBs are served near to their homes: PUBs cross fewer links."""
    experiment, _, _, summary = ran
    expected, found = estimate(experiment, Workload()), summary["attention"]
    sequential = experiment.service.of_kind.fan_out == "sequential"
    for per_s, counted, below in (
        (expected.message_hops, found["publication_crossings"], 3 if sequential else 2),
        (expected.ra_hops, found["control_crossings"], 2),
    ):
        assert per_s * experiment.duration_s / below < counted < 2 * per_s * experiment.duration_s


def test_an_estimate_frees_the_matrix_of_hops_that_the_check_made() -> None:
    hops_on_trees.cache_clear()
    experiment = load_checked(find_experiment("diallo-small"), {"protocol.hop_limit": "20"})
    assert hops_on_trees.cache_info().currsize == 1
    estimate(experiment, Workload())
    assert hops_on_trees.cache_info().currsize == 0


def test_tables_are_sampled_when_there_are_subscriptions() -> None:
    """In the middle half of the 40 s of a run, but not before the first subscription."""
    for from_s, lasts_s in (("0", 20), ("20", 10)):
        *_, samples = _simulated(_experiment(workload__attention__subscriptions_from_s=from_s))
        assert max(samples) - min(samples) == pytest.approx(lasts_s)


def test_trace_of_a_publication(ran: Any) -> None:
    """From the upload, through the indexes of the caches, to every delivery."""
    _, run, _, summary = ran
    found = publications.publications(run)
    assert len(found) == 1500
    assert sum(each.deliveries for each in found) == summary["attention"]["deliveries"]
    most = max(found, key=lambda each: each.deliveries)
    one = publications.publication(run, most.source, most.number)
    assert (one.seq, one.message, one.deliveries) == (most.seq, most.message, most.deliveries)
    assert one.caches
    assert (one.steps[0].node, one.steps[0].what) == (one.source, "uploaded")
    assert any(step.what.startswith("- -> ") for step in one.steps)
    text = list(publications.lines(one, read_topology(run)))
    assert text[0] == f"publication {one.source}:{one.number}  {one.message}"
    assert sum("delivered to subscription" in line for line in text) == one.deliveries
    of_event = publications.publications(run, "event = 0")
    assert of_event == [each for each in found if each.message == "event = 0"]
    with pytest.raises(InputError, match="no such publication"):
        publications.publication(run, 0, 999_999)
    with pytest.raises(InputError, match="--where"):
        publications.publications(run, "event == = 0")


def test_the_command_traces_publications(
    ran: Any, printed: Callable[..., str], refused: Callable[..., str]
) -> None:
    _, run, _, _ = ran
    found, trace = publications.publications(run), ("trace", run.path)
    assert printed(*trace).splitlines() == list(publications.listing(found))
    listed = [json.loads(line) for line in printed(*trace, "--where", "event = 0", "--json").splitlines()]
    assert listed == [asdict(each) for each in found if each.message == "event = 0"]
    name = f"{found[0].source}:{found[0].number}"
    one = publications.publication(run, found[0].source, found[0].number)
    assert printed(*trace, name).splitlines() == list(publications.lines(one, read_topology(run)))
    assert json.loads(printed(*trace, name, "--json")) == asdict(one)
    assert "--missed: the oracle expects messages" in refused(*trace, "--missed")
    assert "3-17: expected SOURCE:NUMBER, such as 3:17" in refused(*trace, "3-17")


def test_a_record_that_was_written_late_shifts_no_time(tmp_path: Path) -> None:
    experiment = _experiment()
    run = judged_run(experiment, tmp_path)
    before = list(SUBSCRIPTIONS.read_all(run))
    records = run.simulated_service_records
    first, *others = records.read_text(encoding="utf-8").splitlines()
    late = json.loads(first)
    late["t_ns"] += 2_000_000_000
    records.write_text("\n".join([json.dumps(late), *others, ""]), encoding="utf-8")
    judge_run(run, experiment)
    assert list(SUBSCRIPTIONS.read_all(run)) == before


@pytest.mark.parametrize(("overrides", "reason"), cases_beside(__file__)["overrides"])
def test_where_starvation_is_no_fault(overrides: dict[str, str], reason: str) -> None:
    found = starvation_expected(_experiment(**overrides), 2.0)
    assert reason in str(found) if reason else found is None


@pytest.mark.parametrize("fan_out", ["whole", "sequential"])
@pytest.mark.parametrize("strategy", get_args(StrategyName))
def test_a_simulation_plays_the_events_of_the_service(
    tmp_path: Path, strategy: StrategyName, fan_out: FanOut
) -> None:
    path = experiment(tmp_path / "e.toml", strategy, 3, fan_out)
    run_dir = simulated(path, tmp_path / "runs", "none").path
    assert deliveries(run_dir) == DELIVERIES
    assert outcomes(run_dir) == [(0, 0, "satisfied", 3), (1, 0, "expired", 1), (0, 1, "expired", 1)]
    # The caches of routers 2, 3, 4 and 0 referenced the publications that they sent or got.
    changes = [each for each in records(run_dir) if each["event"] == "cache"]
    assert {each["cause"] for each in changes} <= {"U1", "U2", "U3", "U4", "P1", "T1", "T3", "L1"}
    assert {each["after"] for each in changes} == {"ppt", "dpt", "opt"}


def test_events_and_keys_of_another_service_are_refused(tmp_path: Path) -> None:
    path = experiment(tmp_path / "e.toml", "eon", 1)
    path.write_text(path.read_text().partition("[service]")[0])
    with pytest.raises(ExperimentError, match=r'\[service\] kind: "exhaustive", with .* has no register, wh'):
        load_experiment(path)
    with pytest.raises(ExperimentError, match='the scheme "flooding", has no request_update'):
        load_experiment(find_experiment(EXAMPLES[2][2]), {"routing.scheme": "flooding"})
    path = experiment(tmp_path / "e.toml", "push", 1)
    with pytest.raises(ExperimentError, match=r'strategy: "push" is not valid; expected "eon" or "pdp"'):
        load_experiment(path)
    path.write_text(path.read_text().replace('kind = "attention"', 'kind = "exhaustive"'))
    with pytest.raises(ExperimentError, match="strategy"):
        load_experiment(path)
