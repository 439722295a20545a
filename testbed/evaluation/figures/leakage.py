"""Attacks on encoded traffic against the number of messages seen, with and without hardening."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from testbed.evaluation.attacks.attacks import ATTACKS
from testbed.evaluation.figures.reproduction import Case, Panel, Reproduction, Results, Statement

#: k' of the subscribers' secret choice, and the share of bits to which messages are filled.
_HARDENINGS: Mapping[str, tuple[int, float]] = {
    "not hardened": (0, 0.0),
    "k' = 4": (4, 0.0),
    "filled to 0.5": (0, 0.5),
    "k' = 4, filled to 0.5": (4, 0.5),
}


class Leakage(Reproduction, page="leakage"):
    measure = "testbed.evaluation.figures.leakage:measure"
    calculates = True

    def cases(self, size: str) -> list[Case]:
        counts = (200, 1_000) if size == "small" else (200, 1_000, 5_000)
        subscribers = 300 if size == "small" else 2_000
        return [
            Case(
                f"{encoding}, {label}",
                facts={
                    "encoding": encoding,
                    "hardening": label,
                    "kept": kept,
                    "fill": fill,
                    "counts": list(counts),
                    "subscribers": subscribers,
                    "words": 50,
                },
            )
            for encoding in ("slides", "ranges")
            for label, (kept, fill) in _HARDENINGS.items()
        ]

    def judge(self, results: Results) -> Iterator[Statement]:
        for case, name in product(results, ATTACKS):
            yield Statement(
                f"{case.label}: {name}",
                f"a guess: {100 * results.median(case, f'{name}_baseline'):.3g} %{_anchor(case, name)}",
                f"{results.band(case, name, scale=100)} %",
            )
        plain, kept, filled, _ = results.where(encoding="slides")
        hidden = results.differences(plain, "A2", kept).values()
        times = results.ratios(filled, "A3", filled, "A3_baseline")
        text = "slides: the weight gives the number of attributes of most messages"
        yield Statement.by_interval(text, "above 50 %", results.values(plain, "A1"), 0.5, unit="%")
        text = "slides: a fill hides it"
        yield Statement.by_interval(text, "at most 25 %", results.values(filled, "A1"), high=0.25, unit="%")
        text = "slides: a secret choice of bits lowers the share of filters named by frequency"
        yield Statement.by_interval(text, "above 0", hidden, 0.0, unit="points less")
        text = "slides: a fill does not keep mining from naming strings, far more than a guess would"
        yield Statement.by_interval(text, "above 5", times, 5.0, unit="times as many")
        text = "slides: the key opens nearly everything"
        yield Statement.by_interval(text, "above 90 %", results.values(plain, "A5"), 0.9, unit="%")

    def panels(self, results: Results) -> list[Panel]:
        return [
            Panel(
                f"{name}, encoding {encoding}",
                "share identified",
                {
                    case.facts["hardening"]: results.curves(case, f"{name}_curve")
                    for case in results.where(encoding=encoding)
                },
                x="messages seen",
                paper={
                    f"published, not hardened: {100 * share:g} %": share
                    for attack, (share, _) in _PUBLISHED.items()
                    if attack == name
                },
                points=True,
            )
            for encoding in ("slides", "ranges")
            for name in ATTACKS
        ]


#: Attack -> the published shares, without and with hardening.
_PUBLISHED = {"A2": (0.05, "none"), "A3": (0.207, "at most 5 %")}


def _anchor(case: Case, name: str) -> str:
    """The published share beside an attack of the same method."""
    if name not in _PUBLISHED:
        return ""
    share, hardened = _PUBLISHED[name]
    return f"; published: {hardened if case.facts['kept'] or case.facts['fill'] else f'{100 * share:g} %'}"


def measure(facts: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Returns the share that each attack identifies after all messages, its baseline, and its curve."""
    from router.predicates.encoded import Suite
    from router.predicates.encoded.encoder import Hardening
    from router.predicates.encoded.encodings import ENCODINGS
    from testbed.evaluation.attacks import draw_traffic, encoded, public_knowledge, zipf_workload

    encoding = ENCODINGS[facts["encoding"]]()
    counts = sorted(facts["counts"])
    workload = zipf_workload(counts[-1], facts["subscribers"], facts["words"], seed)
    knowledge = public_knowledge(workload, encoding)
    hardening = Hardening(facts["kept"], facts["fill"])
    seen, truth = encoded(
        draw_traffic(workload), Suite(1, 512, 8, encoding.number), encoding, hardening, seed
    )
    measured: dict[str, Any] = {}
    for name, attack in ATTACKS.items():
        outcomes = [attack.after(count, seen, knowledge, truth) for count in counts]
        shares = [each.share for each in outcomes]
        measured |= {name: shares[-1], f"{name}_baseline": outcomes[-1].baseline}
        measured[f"{name}_curve"] = list(zip(counts, shares, strict=True))
    return measured
