"""Figure 10 of the protocol paper: how many predicates a message matches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from testbed.evaluation.figures.reproduction import Case, Panel, Reproduction, Results, Statement
from testbed.experiments.config.load import find_experiment, load_experiment
from testbed.experiments.workload.generate import generate, match_distribution

_WORDS = 200
#: Has no factor in common with `_WORDS`: a word for each number below it.
_STEP = 89
_ANY_ORDER = ("=", ">", "<", "!=")


def write_restored(folder: Path) -> Path:
    """Writes the distributions of the authors' generator, with the weights that their release has flattened.

    The released `types.dist` gives integers alone, `int_operators.dist` equality alone, `int_values.dist` the
    value 1 alone: three settings of a later experiment, with which no message of figure 10 can be drawn. The
    restored distributions give equal weights to the four types, to the four operators of integers and to the
    values 0 to 99, as the other files of the release do to theirs. Names in messages and in constraints and
    the values of strings are 200 words each, of which the i-th has the weight floor(200 / i), as released;
    here the words are numbers behind a letter, in an order that is unrelated to their weights.

    Args:
        folder: exists, and gets a file for each distribution.

    Returns:
        The folder.
    """
    words = [(_WORDS // rank, f"w{_STEP * rank % _WORDS:03d}") for rank in range(1, _WORDS + 1)]
    files: dict[str, Iterable[tuple[int, object]]] = {
        "attr_names": words,
        "constr_names": words,
        "types": _equal("isbd"),
        "int_operators": _equal(_ANY_ORDER),
        "int_values": _equal(range(100)),
        "double_operators": _equal(_ANY_ORDER),
        # 1.0 to 49.75.
        "double_values": _equal(1 + step / 4 for step in range(196)),
        "bool_operators": _equal(("=", "!=")),
        "bool_values": _equal((0, 1)),
        "string_operators": _equal(("=", ">", "<", "=*", "*=", "**", "!=")),
        "string_values": words,
    }
    for name, values in files.items():
        text = "".join(f"{weight} {value}\n" for weight, value in values)
        (folder / f"{name}.dist").write_text(text, encoding="utf-8")
    return folder


def _equal(values: Iterable[object]) -> list[tuple[int, object]]:
    return [(1, value) for value in values]


_WIDTH = 2.5
#: The sizes of the authors' generator.
_RESTORED = {
    "workload.filters_min": "0",
    "workload.filters_max": "20",
    "workload.constraints_min": "1",
    "workload.constraints_max": "5",
    "workload.attributes_min": "1",
    "workload.attributes_max": "10",
    "workload.changing_receivers_percent": "100",
    "workload.predicate_change_interval_s": "1440",
}


class Match(Reproduction, page="match"):
    calculates = True

    def cases(self, size: str) -> list[Case]:
        nodes = 100 if size == "paper" else 50
        duration_s = 7200 if size == "paper" else 1800
        return [
            Case.of(
                f"{nodes} nodes, {what}",
                {"restored": bool(more)},
                more,
                topology__nodes=nodes,
                duration_s=duration_s,
            )
            for what, more in (("the testbed's vocabulary", {}), ("restored distributions", _RESTORED))
        ]

    def run(self, case: Case, seed: int) -> Mapping[str, Any]:
        overrides = {**case.overrides, "seed": str(seed)}
        with TemporaryDirectory(prefix="cbcb-figure-") as folder:
            if case.facts["restored"]:
                overrides["workload.distributions"] = str(write_restored(Path(folder)))
            shares = match_distribution(generate(load_experiment(find_experiment("default"), overrides)))
        matching = [share for share in shares if share > 0]
        bins = Counter(int(100 * share // _WIDTH) for share in shares)
        last = max(bins, default=0)
        return {
            "middle": sum(0.05 <= share <= 0.15 for share in matching) / max(1, len(matching)),
            "none": 1 - len(matching) / max(1, len(shares)),
            "most": max(shares, default=0.0),
            "curve": [(_WIDTH * each, bins[each] / max(1, len(shares))) for each in range(last + 1)],
        }

    def judge(self, results: Results) -> Iterator[Statement]:
        for case in results:
            most = max(results.values(case, "most"), default=float("nan"))
            middle, none = results.values(case, "middle"), results.values(case, "none")
            of_all = [share * (1 - unmatched) for share, unmatched in zip(middle, none, strict=True)]
            for values, least, claim in (
                (of_all, 0.5, "most messages match 5 to 15 % of the predicates"),
                (middle, 0.5, "most messages that match any match 5 to 15 %"),
                (none, 0.1, "a significant number match none"),
            ):
                predicted = f"more than {100 * least:g} %"
                yield Statement.by_interval(f"{case.label}: {claim}", predicted, values, least, unit="%")
            yield Statement(
                f"{case.label}: no message matches more than 25 %",
                "at most 25 %",
                f"{100 * most:.3g} %, the greatest over all seeds; median "
                f"{results.band(case, 'most', 100)} %",
                most <= 0.25,
            )

    def panels(self, results: Results) -> list[Panel]:
        curves = {case.label: results.curves(case) for case in results}
        x, paper = "matching predicates (%)", {"paper: at most 25 %": 25.0}
        return [Panel("Messages by matching predicates", "messages", curves, x=x, paper_x=paper)]
