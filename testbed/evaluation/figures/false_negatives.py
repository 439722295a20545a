"""Figure 11 of the protocol paper: false negatives over time."""

from __future__ import annotations

from collections.abc import Iterator

from testbed.evaluation.figures import LAYERS
from testbed.evaluation.figures.reproduction import Case, Panel, Reproduction, Results, Statement

#: Size -> nodes of the networks.
_NODES = {"small": (25, 50), "paper": (50, 100, 200), "large": (400, 800, 1600)}
#: Experiment second of the first predicates, and the duration of a run.
_FIRST_S, _DURATION_S = 1, 11
#: Messages a second of a sender (the authors' script), and of all senders together in large networks, and in
#: small ones and emulations.
_OF_SENDER, _OF_ALL_LARGE, _OF_ALL_EMULATED = 100, 200, 80
_RATE = "workload.messages_per_minute"
_CHANGING = "predicates change every 20 s"
_STRICT = "pif-strict"
#: What differs from the paper's experiment.
_VARIANTS = {
    _CHANGING: {"workload.changing_receivers_percent": "100", "workload.predicate_change_interval_s": "20"},
    _STRICT: {"routing.scheme": _STRICT},
    "Barabási-Albert": {"topology.generator": "barabasi_albert"},
}


class FalseNegatives(Reproduction, page="fn"):
    measure = "testbed.evaluation.figures.measures:false_negatives"
    emulated_scale = 1.0
    sizes = tuple(_NODES)
    captures = "none"
    # Deliveries that are missed are what the page judges.
    expected = ("false_negatives_after_convergence",)

    def cases(self, size: str) -> list[Case]:
        nodes = _NODES[size]
        found = [_case(each, layer, size) for each in nodes for layer in LAYERS]
        if size == "large":
            return found
        found += [_case(nodes[0], layer, size, _CHANGING) for layer in LAYERS]
        if size == "paper":
            found += [_case(each, layer, size, _STRICT) for each in (25, *nodes, 400) for layer in LAYERS]
        return [*found, _case(nodes[1], "spt", size, "Barabási-Albert")]

    def overrides(self, case: Case, engine: str) -> dict[str, str]:
        found = super().overrides(case, engine)
        if engine == "run":
            found[_RATE] = messages_per_minute(case.facts["nodes"], _OF_ALL_EMULATED)
        return found

    def judge(self, results: Results) -> Iterator[Statement]:
        for case in results:
            if case.facts["variant"] == _CHANGING:
                yield _few(results, case)
                continue
            last = max(results.values(case, "last_miss_s"), default=float("nan"))
            beyond = [last - at for last, at in results.pairs(case, "last_miss_s", case, "settled_s")]
            latest = max(beyond, default=float("nan"))
            place = "after it" if latest > 0 else "before it, or earlier"
            predicted = f"at most {results.band(case, 'settled_s')} s" if beyond else "no delay is declared"
            yield Statement(
                f"{case.label}: the last false negative comes before 5 s",
                predicted,
                f"{results.band(case, 'last_miss_s')} s, at most {last:.3g} s",
                last < 5,
            )
            if beyond:
                yield Statement(
                    f"{case.label}: none after the last RA has come to a sender",
                    predicted,
                    f"{abs(1000 * latest):.3g} ms {place}",
                    latest <= 0,
                )

    def panels(self, results: Results) -> list[Panel]:
        found = []
        for layer in LAYERS:
            curves = {
                case.label.replace(f", {layer}", ""): [
                    [(t, v) for t, v in curve if t <= 6] for curve in results.curves(case)
                ]
                for case in results.where(layer=layer)
            }
            x, paper = "time since the first predicates (s)", {"paper: none after 5 s": 5.0}
            found.append(Panel(layer, "false negatives", curves, x=x, paper_x=paper))
        return found


def _case(nodes: int, layer: str, size: str, variant: str = "") -> Case:
    large = size == "large"
    of_all = _OF_ALL_LARGE if large or variant == _STRICT else _OF_SENDER * _senders(nodes)
    if size == "small":
        of_all = _OF_ALL_EMULATED
    # The paths of a minimum spanning tree are long: up to 83 hops with 1,600 nodes (seeds 1 to 5).
    more = {"protocol.hop_limit": "255"} if large else _VARIANTS.get(variant, {})
    return Case.of(
        (f"{nodes} nodes", layer, variant),
        {"nodes": nodes, "layer": layer, "variant": variant},
        more,
        topology__nodes=nodes,
        duration_s=_DURATION_S,
        workload__messages_per_minute=messages_per_minute(nodes, of_all),
        workload__first_predicate_s=_FIRST_S,
        workload__changing_receivers_percent=0,
        broadcast__layer=layer,
    )


def _senders(nodes: int) -> int:
    return max(1, int(nodes * 0.2 + 0.5))


def messages_per_minute(nodes: int, of_all: float) -> str:
    """Returns the messages of a sender, if all senders (20 %) together send `of_all` a second."""
    return f"{60 * of_all / _senders(nodes):g}"


def _few(results: Results, case: Case) -> Statement:
    missed, expected = (sum(results.values(case, f"{key}_after_5_s")) for key in ("missed", "expected"))
    return Statement(
        f"{case.label}: few false negatives after 5 s (below 1 %)",
        "few: those of messages under way with the RA of a change",
        f"{missed:.0f} of {expected:.0f} deliveries in all runs, {100 * missed / expected:.2g} %"
        if expected
        else "no run",
        expected > 0 and missed / expected < 0.01,
    )
