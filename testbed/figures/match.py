"""Figure 10 of the protocol paper: how many predicates a message matches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from testbed.config.load import load_experiment
from testbed.config.shipped import find_experiment
from testbed.figures.reproduction import Case, Panel, Reproduction, Results, Statement, common
from testbed.workload.generate import generate, match_distribution

_WIDTH = 2.5


class Match(Reproduction):
    title = "Figure 10: matching messages"
    paper = (
        "Most messages match 5 % to 15 % of the predicates, a significant number of messages do "
        "not match any "
        "predicate, and no message matches more than 25 % of the predicates (section 4.1).",
    )
    deviations = (
        "The distributions behind the figure are not given, and those released later cannot have "
        "produced it. "
        "The vocabulary of the testbed was tuned to the figure: this page checks that tuning, and nothing of "
        "the protocol.",
        "The statements are read as: at least half of the messages that match a predicate match 5 "
        "to 15 %; at "
        "least a tenth match none; the greatest share is at most 25 %.",
    )

    def cases(self, size: str) -> list[Case]:
        nodes = 100 if size == "paper" else 50
        duration_s = 7200 if size == "paper" else 1800
        return [Case(f"{nodes} nodes", common(topology__nodes=nodes, duration_s=duration_s))]

    def run(self, case: Case, seed: int) -> Mapping[str, Any]:
        experiment = load_experiment(find_experiment("default"), {**case.overrides, "seed": str(seed)})
        shares = match_distribution(generate(experiment))
        matching = [share for share in shares if share > 0]
        bins = Counter(int(100 * share // _WIDTH) for share in shares)
        last = max(bins, default=0)
        return {
            "middle": sum(0.05 <= share <= 0.15 for share in matching) / max(1, len(matching)),
            "none": 1 - len(matching) / max(1, len(shares)),
            "most": max(shares, default=0.0),
            "curve": [(_WIDTH * each, bins[each] / max(1, len(shares))) for each in range(last + 1)],
        }

    def judge(self, results: Results) -> list[Statement]:
        found = []
        for case in results:
            most = max(results.values(case, "most"), default=float("nan"))
            found += [
                Statement(
                    "most matching messages match 5 to 15 % of the predicates",
                    "at least 50 %",
                    f"{results.band(case, 'middle', 100)} %",
                    results.median(case, "middle") >= 0.5,
                ),
                Statement(
                    "a significant number match none",
                    "at least 10 %",
                    f"{results.band(case, 'none', 100)} %",
                    results.median(case, "none") >= 0.1,
                ),
                Statement(
                    "no message matches more than 25 %",
                    "at most 25 %",
                    f"{100 * most:.3g} %, the greatest over all seeds; median "
                    f"{results.band(case, 'most', 100)} %",
                    most <= 0.25,
                ),
            ]
        return found

    def panels(self, results: Results) -> list[Panel]:
        curves = {case.label: results.curves(case) for case in results}
        return [Panel("Messages by matching predicates", "messages", curves, x="matching predicates (%)")]
