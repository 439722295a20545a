"""The forwarding algorithm and its optimisations (SIGCOMM 2003 and slides, part II): time of matching."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from math import inf
from typing import Any

from router.matching.counting import CountingMatcher, CountingOptions
from router.predicates import type_of
from testbed.evaluation.figures import Points
from testbed.evaluation.figures.network_effect_runs import MESSAGES, best_us
from testbed.evaluation.figures.reproduction import Case, Panel, Reproduction, Results, Statement
from testbed.experiments.siena_ff.generate import MatchingWorkload, draw_messages, draw_table

#: The algorithm of the papers without its table and its Bloom filters.
_BASIC = CountingOptions(bloom=False, direct=False)
_ROUNDS = (1, 2, 5, 10, 20, 50, 100)
_VARIANTS: Mapping[str, CountingOptions] = {
    "basic": _BASIC,
    "Bloom": replace(_BASIC, bloom=True),
    "no short circuit": replace(_BASIC, short_circuit=False),
    "Bloom, 10 rounds": replace(_BASIC, bloom=True, rounds=10),
    **{f"{rounds} rounds": replace(_BASIC, rounds=rounds) for rounds in _ROUNDS},
}
#: Variant -> its optimisation, what is predicted of its time over that of `basic`, least and greatest ratio.
_CLAIMS = {
    "no short circuit": ("without the short circuit", "more than 2 (greatly reduces)", 2, inf),
    "10 rounds": ("with 10 rounds of the selectivity table", "at most 1.05 (no costs)", 0, 1.05),
    "Bloom": ("with Bloom filters", "at most 1", 0, 1),
    "Bloom, 10 rounds": ("with Bloom filters and 10 rounds", "at most 1", 0, 1),
}
#: Attributes of a message.
_WORKLOADS = {"workload of the slides": (5, 10), "workload of 2003": (1, 19)}
#: Interfaces, filters of an interface, constraints of a filter, attributes of a message: of the slides'
#: results with Bloom filters.
_SETTINGS = (
    *((5_000, 2, 10, 20), (500, 20, 10, 20), (50, 200, 10, 20), (5, 2_000, 10, 20)),
    *((1_000, 40, 10, 20), (100, 400, 10, 20), (10, 4_000, 10, 20)),
    *((5_000, 2, 1, 1), (500, 20, 1, 1), (50, 200, 1, 1), (5, 2_000, 1, 1)),
    *((100_000, 4, 1, 1), (10_000, 40, 1, 1), (1_000, 400, 1, 1), (100, 4_000, 1, 1)),
)


class Forwarding(Reproduction, page="forwarding"):
    measure = "testbed.evaluation.figures.forwarding:measured"
    calculates = True

    def cases(self, size: str) -> list[Case]:
        less = 1 if size == "paper" else 10
        most = 100_000 // less
        tables = ((most // 100, 10), (most // 10, 10), (most, 10), (most, 100), (most, 1_000), (4_000, 1_000))
        found = []
        for (name, of_message), (constraints, interfaces) in product(_WORKLOADS.items(), tables):
            facts = {"name": name, "filter": (1, 6), "attributes": of_message, "constraints": constraints}
            label = f"{name}, {constraints:,} constraints, {interfaces:,} interfaces"
            found.append(Case(label, {}, facts | {"interfaces": interfaces}))
        for interfaces, filters, of_filter, attributes in _SETTINGS:
            facts = {"name": f"c{of_filter}", "filter": (of_filter,) * 2, "attributes": (attributes,) * 2}
            facts["constraints"] = interfaces * filters * of_filter // less
            few = interfaces // less or 1
            label = f"I{few},f{interfaces * filters // less // few},c{of_filter},a{attributes}"
            found.append(Case(label, {}, facts | {"interfaces": few}))
        return found

    def judge(self, results: Results) -> Iterator[Statement]:
        for case in results:
            for variant, (optimisation, predicted, least, most) in _CLAIMS.items():
                if case.facts["name"] in _WORKLOADS or variant == "Bloom":
                    text = f"{case.label}: time {optimisation} / of the basic algorithm"
                    text += " (c1,a1)" if case.facts["name"] == "c1" else ""
                    key = "excluded" if "rounds" in variant else "matched"
                    ratios = results.values(case, f"{variant} ratio")
                    unit = f"times; {results.median(case, key):.3g} {key}"
                    if variant == "Bloom" or results.median(case, key) >= 1:
                        yield Statement.by_interval(text, predicted, ratios, least, most, unit=unit)
                    else:
                        yield Statement(text, predicted, f"{results.band_of(ratios)} {unit}")
        for name in _WORKLOADS:
            _, tenth, few, _, many, selective = results.where(name=name)
            for text, bar, other in (
                ("time with 10 interfaces / with 1,000, the most constraints (large disjunctions)", 1, many),
                ("time of 10 times the constraints, 10 interfaces", 10, tenth),
            ):
                ratios = results.ratios(few, "basic", other)
                text, predicted = f"{name}: {text}", f"less than {bar}"
                yield Statement.by_interval(text, predicted, ratios, high=bar, unit="times")
            best = min(_ROUNDS, key=lambda rounds: results.median(selective, f"{rounds} rounds ratio"))
            text = f"{selective.label}: time with the best number of rounds / without rounds"
            measured = f"{results.band(selective, f'{best} rounds ratio')}, {best} rounds"
            yield Statement(text, "less than 1", measured, None)

    def panels(self, results: Results) -> list[Panel]:
        found, whole = [], dict[str, list[Points]]()
        for name in _WORKLOADS:
            largest = results.where(name=name)[2:5]
            whole |= results.lines(largest, lambda case: case.facts["name"], "interfaces", "basic")
            cases = results.where(name=name, interfaces=10)
            times = {
                variant: results.curves_over(cases, "constraints", variant) for variant in (*_CLAIMS, "basic")
            }
            found.append(Panel.of_points(f"{name}, 10 interfaces", "us", times, "constraints"))
        settings = {
            case: f"{case.facts['name']}, {case.facts['constraints']:,} constraints"
            for case in results
            if case.facts["name"] not in _WORKLOADS
        }
        bloom = results.lines(settings, settings.__getitem__, "interfaces", "Bloom ratio")
        rounds = {
            name: [
                [(rounds, run[f"{rounds} rounds ratio"]) for rounds in _ROUNDS]
                for run in results.runs(results.where(name=name)[-1])
            ]
            for name in _WORKLOADS
        }
        return [
            *found,
            Panel.of_points("Basic algorithm, the most constraints", "us", whole, "interfaces"),
            Panel.of_points("15 settings of Bloom filters", "time / without", bloom, "interfaces"),
            Panel.of_points("Selectivity table, 1,000 interfaces", "time / without", rounds, "rounds"),
        ]


def measured(facts: Mapping[str, Any], seed: int) -> dict[str, float]:
    """Returns the median time of a message for each variant, us, and the median of its ratios to `basic`.

    `matched` and `excluded` are the mean interfaces that a message matches and that 10 rounds exclude.
    """
    workload = MatchingWorkload(
        constraints=facts["constraints"],
        interfaces=facts["interfaces"],
        messages=MESSAGES,
        seed=seed,
        filter_constraints=facts["filter"],
        message_attributes=facts["attributes"],
    )
    matcher = CountingMatcher(_BASIC)
    matcher.load(draw_table(workload))
    variants = list(_VARIANTS)[: None if facts["name"] in _WORKLOADS else 2]
    times: dict[str, list[float]] = {variant: [] for variant in variants}
    matched, excluded = [], []
    for number, message in enumerate(draw_messages(workload)):
        matched.append(len(matcher.match(message)))
        if "10 rounds" in variants:
            matcher.options, gone = _VARIANTS["10 rounds"], set[int]()
            matcher.exclude({(attribute, type_of(value)) for attribute, value in message.items()}, gone)
            excluded.append(len(gone))
        # The first of a message's searches finds less in the caches of the processor.
        for place in range(len(variants)):
            variant = variants[(number + place) % len(variants)]
            matcher.options = _VARIANTS[variant]
            times[variant].append(best_us(matcher, message, None))
    found = {variant: statistics.median(us) for variant, us in times.items()}
    for variant, us in times.items():
        ratios = [one / basic for one, basic in zip(us, times["basic"], strict=True)]
        found[f"{variant} ratio"] = statistics.median(ratios)
    if excluded:
        found["excluded"] = statistics.fmean(excluded)
    return found | {"matched": statistics.fmean(matched)}
