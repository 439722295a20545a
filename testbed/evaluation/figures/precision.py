"""The precision of encoded matching: false matches by cause, against the formula of Bloom filters."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any

from testbed.evaluation.figures.reproduction import Case, Panel, Reproduction, Results, Statement

_SIZES = ((512, 8), (256, 7), (192, 10), (192, 7))
#: Greatest share of false matches by the hash, of the default at 10 attributes.
_BAR = 1e-4
#: Pairs of which the missing strings are counted for the prediction; of the matching pairs, all are compared.
_SAMPLED = 4_000


class Precision(Reproduction, page="precision"):
    measure = "testbed.evaluation.figures.precision:measure"
    calculates = True

    def cases(self, size: str) -> list[Case]:
        pairs = (
            {"messages": 100, "filters": 5_000} if size == "small" else {"messages": 400, "filters": 20_000}
        )
        return [
            Case(
                f"{encoding}, {bits}/{hashes}, {attributes} attributes",
                {},
                {"encoding": encoding, "bits": bits, "hashes": hashes, "attributes": attributes, **pairs},
            )
            for encoding in ("slides", "ranges")
            for bits, hashes in _SIZES
            for attributes in (5, 10, 20)
        ]

    def judge(self, results: Results) -> Iterator[Statement]:
        for case in results:
            facts, predicted = case.facts, results.median(case, "predicted_fill")
            text, limits = f"{case.label}: share of bits set (to 0.02)", (predicted - 0.02, predicted + 0.02)
            yield Statement.by_interval(
                text, f"{predicted:.3f}", results.values(case, "fill"), *limits, unit=""
            )
            text = f"{case.label}: false matches by the hash, of the pairs with S_f not in S_m"
            rate = f"{results.median(case, 'predicted_hash_rate'):.2g}"
            rates = results.values(case, "hash_rate")
            if (facts["encoding"], facts["bits"], facts["attributes"]) == ("slides", 512, 10):
                at_most = f"{rate} (at most {_BAR:g})"
                yield Statement.by_interval(text, at_most, rates, high=_BAR, unit="")
            else:
                yield Statement(text, rate, results.band_of(rates))
            yield Statement(
                f"{case.label}: matching pairs lost; false matches by the operators, of all encoded",
                "0; no prediction",
                f"{results.median(case, 'lost'):g} of {results.median(case, 'matching'):g}; "
                f"{results.band(case, 'operator_share')}",
                all(run["lost"] == 0 for run in results.runs(case)) and bool(results.runs(case)),
            )

    def panels(self, results: Results) -> list[Panel]:
        cases, x = results.where(encoding="slides"), "attributes of a message"
        rates, predicted, filled = (
            results.lines(cases, lambda case: "{bits}/{hashes}".format_map(case.facts), "attributes", key)
            for key in ("hash_rate", "predicted_hash_rate", "fill")
        )
        formulas = {label: curves[0] for label, curves in predicted.items() if curves}
        bar, title = {f"bar of 512/8, 10 attributes: {_BAR:g}": _BAR}, "False matches by the hash"
        return [
            Panel.of_points(title, "of the pairs (below: 0)", rates, x, formulas=formulas, paper=bar),
            Panel("Share of bits set", "share", filled, x=x, points=True),
        ]


def measure(facts: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Returns shares of false matches of a case, and those predicted."""
    import numpy as np

    from router.predicates import matches_filter
    from router.predicates.encoded import Suite
    from router.predicates.encoded.encoder import Encoder
    from router.predicates.encoded.encodings import ENCODINGS
    from testbed.experiments.config import WorkloadOptions
    from testbed.experiments.drawing import draw_message, draw_predicate

    source = random.Random(seed)
    encoding, attributes = ENCODINGS[facts["encoding"]](), facts["attributes"]
    sizes = WorkloadOptions(
        filters_max=1, constraints_max=4, attributes_min=attributes, attributes_max=attributes
    )
    bits, hashes = int(facts["bits"]), int(facts["hashes"])
    own = Encoder(Suite(1, bits, hashes, encoding.number), source.randbytes(32), encoding)
    filters = [filter_ for _ in range(facts["filters"]) for filter_ in draw_predicate(source, sizes)]
    names = [frozenset(constraint.name for constraint in filter_) for filter_ in filters]
    strings = [encoding.filter_strings(filter_) for filter_ in filters]
    octets = b"".join(own.suite.row(own.filter(filter_).bits) for filter_ in filters)
    rows = np.frombuffer(octets, np.uint8).reshape(len(filters), bits // 8)
    weights, predicted_weights, predicted = [], [], []
    encoded = exact = operator = hashed = lost = 0
    for _ in range(facts["messages"]):
        message = draw_message(source, sizes)
        present, set_bits = encoding.message_strings(message), own.message_bits(message)
        weights.append(set_bits.bit_count() / bits)
        rho = 1 - (1 - 1 / bits) ** (hashes * len(present))
        predicted_weights.append(rho)
        lacks = ~np.frombuffer(set_bits.to_bytes(bits // 8, "little"), np.uint8)
        matched = np.flatnonzero(((rows & lacks) == 0).all(1)).tolist()
        encoded += len(matched)
        for number in matched:
            if not strings[number] <= present:
                hashed += 1
            elif matches_filter(filters[number], message):
                exact += 1
            else:
                operator += 1
        is_matched = set(matched)
        sampled = source.sample(range(len(filters)), min(len(filters), _SAMPLED // facts["messages"]))
        has = message.keys()
        lost += sum(
            number not in is_matched and matches_filter(filters[number], message)
            for number, own in enumerate(names)
            if own <= has
        )
        missing = (len(strings[number] - present) for number in sampled)
        predicted += [rho ** (hashes * each) for each in missing if each]
    without = facts["messages"] * len(filters) - exact - operator
    return {
        "fill": sum(weights) / len(weights),
        "predicted_fill": sum(predicted_weights) / len(predicted_weights),
        "hash_rate": hashed / without,
        "predicted_hash_rate": sum(predicted) / max(len(predicted), 1),
        "operator_share": operator / max(encoded, 1),
        "lost": lost,
        "matching": exact + lost,
    }
