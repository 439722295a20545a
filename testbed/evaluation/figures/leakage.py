"""Attacks on encoded traffic against the number of messages seen, with and without hardening."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
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


class Leakage(Reproduction):
    title = "Leakage of encoded messages and filters"
    paper = (
        "We want the network to route information on the basis of message content and receiver interests. "
        "But we do not want the network to learn anything about message content and receiver interests "
        "(slides, part IV).",
        "Published anchors, of other data and attacks, on 222,251 Bloom filters without hardening: pattern "
        "mining re-identifies up to 20.7 % of the values, frequencies 5 %; after hardening at most 5 %, and"
        ' none (abstract of "Evaluating hardening techniques against cryptanalysis attacks on Bloom filter '
        'encodings").',
    )
    explanation = (
        "[privacy.md](../explanation/privacy.md) says what is protected, and what not. The network learns "
        "about how many attributes a message has (A1). Who knows what people usually ask for can name some "
        "of the most frequent filters (A2) and patterns (A3). Who knows the content of some messages, as a "
        "subscriber or their author, recognises their strings in all other messages (A4). Who has the key "
        "of one member can test every value of a list (A5). The encoding hides contents from a curious "
        "router that knows little.",
        "Hardening: a fill hides the number of attributes, costs false matches, and does not prevent "
        "mining: the bits of a frequent string still occur together more often than by chance. A secret "
        "choice of k' of the k bits by each subscriber makes equal filters look different, and costs false "
        "matches as well. Against known messages and the key a fill only adds wrong guesses.",
        "Shares: A1 of messages whose number of attributes is guessed; A2 of distinct filters of one "
        "string; A3 of occurrences of strings in messages; A4 (10 % of the messages known) and A5 of "
        "strings in messages, where wrong guesses count as targets. The baseline is a guess that sees no "
        "frame.",
    )
    deviations = (
        "The slides name no attack. Messages and filters are those of the slides' workload (part II) with a"
        " dictionary of 50 words: names and strings by Zipf's law, messages of 5 to 10 attributes, filters "
        "of 1 to 3 constraints, 5 or so a subscriber. The attacker knows the distribution, from a sample of"
        " his own.",
        "The anchors were measured on names of persons, not on these messages; they are shown for "
        "comparison.",
    )
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
        plain, kept, filled, _ = (partial(results.median, case) for case in results.where(encoding="slides"))
        guessed = filled("A3_baseline")
        for text, name, cases, holds in (
            (
                "the weight gives the number of attributes of most messages; a fill hides it",
                *("A1", (plain, filled), plain("A1") > 0.5 > 2 * filled("A1")),
            ),
            (
                "a secret choice of bits lowers the share of filters named by frequency",
                *("A2", (plain, kept), kept("A2") < plain("A2")),
            ),
            (
                "a fill does not keep mining from naming strings, far more than a guess would",
                *("A3", (plain, filled), filled("A3") > 5 * guessed),
            ),
            ("the key opens nearly everything", "A5", (plain,), plain("A5") > 0.9),
        ):
            measured = " and ".join(f"{100 * share(name):.3g} %" for share in cases)
            yield Statement(f"slides: {text}", "as stated", measured, holds)

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
                points=True,
            )
            for encoding in ("slides", "ranges")
            for name in ATTACKS
        ]


def _anchor(case: Case, name: str) -> str:
    """The published share beside an attack of the same method."""
    hardened = case.facts["kept"] or case.facts["fill"]
    anchor = {"A2": ("5 %", "none"), "A3": ("20.7 %", "at most 5 %")}.get(name)
    return f"; published: {anchor[bool(hardened)]}" if anchor else ""


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
