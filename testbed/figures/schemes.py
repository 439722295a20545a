"""Routing schemes against their formulas: memory, delivery function, traffic (slides, part III)."""

from __future__ import annotations

from testbed.figures.reproduction import LAYERS, Case, Panel, Reproduction, Results, Statement, common

SCHEMES = ("pif", "pif-classes", "psf", "ips", "drp")
#: Schemes that claim to cross the links towards receivers alone, on symmetric trees.
_MINIMAL = ("psf", "ips", "drp")
#: Schemes that cross no other links either, with tables that hold the present predicates and no earlier ones.
_MINIMAL_IF_EXACT = (*_MINIMAL, "pif-classes")


#: Covering, and predicates that do not change: what the tables of `pif` hold is then that of the predicates.
_STATIC = "full, no changes"


class Schemes(Reproduction):
    title = "Routing schemes: state, crossings, traffic"
    paper = (
        "PSF: correct, minimal, s r M_p d + s log n. iPS: correct, minimal, n r M_p alpha(r / Delta). PIF, "
        "which is CBCB: correct, non-minimal, n^2 r M_p alpha(r / Delta) + M(broadcast). DRP: correct, "
        "non-minimal, r s M_p + M(unicast) (slides on routing, part III).",
    )
    deviations = (
        "The slides do not define iPS. Here it is PSF with one predicate for all sources that have the same "
        "receivers below a router and its child.",
        "PIF's n^2 is a misprint: each receiver is behind one interface of every other router, so that the "
        "tables hold r (n - 1) predicates. Both ratios are shown.",
        "Minimal is not defined: here it means that a message crosses the links of the paths to its "
        "receivers on the tree of its source and no other.",
        "Forwarding state is counted for the sources that send, as in the slides. The predicates that psf "
        "and ips keep beside it, and broadcast and unicast state, are counted apart.",
        "The memory is counted in filters at the end of the run. Without covering (`none`, predicates that "
        "do not change) it is the formula's but for equal filters of several receivers, which a table has "
        "once; with covering (`full`, a fifth of the predicates change) the ratio is the measured alpha, and "
        "for PIF what narrowed predicates leave behind, since no SRs are sent.",
        "With covering, tables are held against the formulas with alpha(k), measured on the predicates of "
        "the run, drawn at random, at the number k of receivers of each entry; PIF, without changes, also "
        "by alpha(r / Delta) with Delta the mean number of interfaces, as the slides have it.",
    )
    measure = "testbed.figures.measures:schemes"

    def cases(self, size: str) -> list[Case]:
        return [
            Case(
                f"{nodes} nodes, {layer}, {scheme}, covering {covering}",
                common(
                    topology__nodes=nodes,
                    duration_s=600,
                    workload__messages_per_minute=3,
                    workload__changing_receivers_percent=20 if covering == "full" else 0,
                    workload__predicate_change_interval_s=300,
                    broadcast__layer=layer,
                    routing__scheme=scheme,
                    protocol__covering="none" if covering == "none" else "full",
                ),
                {"nodes": nodes, "layer": layer, "scheme": scheme, "covering": covering},
            )
            for nodes in ((50, 100, 200) if size == "paper" else (25, 50))
            for layer in LAYERS
            for covering, schemes in (("none", SCHEMES), ("full", SCHEMES), (_STATIC, ("pif",)))
            for scheme in schemes
        ]

    def judge(self, results: Results) -> list[Statement]:
        by = {tuple(case.facts.values()): case for case in results}
        found = [
            Statement(
                f"{case.label}: correct",
                "0 missed, verdict holds",
                f"{sum(results.values(case, 'missed')):.0f} missed",
                min(results.values(case, "holds"), default=0) == 1,
            )
            for case in results
        ]
        for case in results:
            exact = case.facts["covering"] == "none"
            ratios = results.values(case, "ratio")
            found.append(
                Statement(
                    f"{case.label}: filters held / formula",
                    "0.98 to 1" if exact else "alpha",
                    results.band(case, "ratio"),
                    min(ratios, default=0) >= 0.98 and max(ratios, default=2) <= 1 if exact else None,
                )
            )
        found += self._by_alpha(results) + self._crossings(results) + self._tables(results, by)
        for case in results:
            if case.facts["covering"] == "none" and case.facts["scheme"] == "pif":
                squared = results.band(case, "n_squared")
                found.append(
                    Statement(f"{case.label}: filters held / (n^2 r M_p)", "1 (misprint)", squared, None)
                )
        return found

    def _by_alpha(self, results: Results) -> list[Statement]:
        found = []
        for case in results:
            facts = case.facts
            # Without SRs, pif keeps what narrowed predicates leave behind.
            covering = _STATIC if facts["scheme"] == "pif" else "full"
            if facts["covering"] == covering and facts["scheme"] in ("pif", "psf", "ips"):
                found.append(
                    _near(
                        results, case, "by_alpha", "filters held / formula with alpha(k) of each entry", 0.02
                    )
                )
                if facts["scheme"] == "pif":
                    text = "filters held / ((n - 1) r M_p alpha(r / Delta))"
                    found.append(_near(results, case, "by_mean_alpha", text, 0.1))
        return found

    def _crossings(self, results: Results) -> list[Statement]:
        found = []
        for case in results:
            facts, excess = case.facts, results.values(case, "excess")
            # PIF is minimal on a tree, with tables that hold the present predicates and no earlier ones.
            exact = facts["covering"] != "full"
            minimal = facts["scheme"] in (_MINIMAL_IF_EXACT if exact else _MINIMAL) or (
                facts["layer"] == "spanning-tree" and exact
            )
            found.append(
                Statement(
                    f"{case.label}: crossings beyond the minimal tree",
                    "0" if minimal else "more than 0",
                    f"{results.band(case, 'excess')} of {results.band(case, 'crossings')}",
                    set(excess) == {0.0} if minimal else min(excess, default=0) > 0,
                )
            )
        return found

    def _tables(self, results: Results, by: dict[tuple[object, ...], Case]) -> list[Statement]:
        found = []
        for case in results:
            facts = case.facts
            if facts["covering"] == "full" and facts["scheme"] != "pif":
                pif = by[facts["nodes"], facts["layer"], "pif", "full"]
                times = results.median(case, "table_bytes") / results.median(pif, "table_bytes")
                found.append(
                    Statement(
                        f"{case.label}: bytes of TABLE frames / those of pif",
                        "less than 2",
                        f"{times:.3g}",
                        times < 2,
                    )
                )
            if facts["covering"] == "full":
                found.append(
                    Statement(
                        f"{case.label}: bytes of RAs; of messages; of a message on a link",
                        "",
                        f"{results.band(case, 'ra_bytes')}; {results.band(case, 'msg_bytes')}; "
                        f"{results.band(case, 'msg_bytes_each')}",
                        None,
                    )
                )
        return found

    def panels(self, results: Results) -> list[Panel]:
        found = []
        for key, y in (("filters", "filters for the senders"), ("crossings", "crossings of messages")):
            curves = {}
            for scheme in SCHEMES:
                chosen = [
                    case
                    for case in results
                    if (case.facts["scheme"], case.facts["layer"], case.facts["covering"])
                    == (scheme, "spt", "full")
                ]
                runs = min((len(results.runs(case)) for case in chosen), default=0)
                curves[scheme] = [
                    [(float(case.facts["nodes"]), results.values(case, key)[run]) for case in chosen]
                    for run in range(runs)
                ]
            found.append(Panel(f"spt: {y}", y, curves, x="nodes", percent=False))
        return found


def _near(results: Results, case: Case, key: str, text: str, tolerance: float) -> Statement:
    """Whether the median of a ratio is 1 within a tolerance."""
    return Statement(
        f"{case.label}: {text}",
        f"1 within {100 * tolerance:.0f} %",
        results.band(case, key),
        abs(results.median(case, key) - 1) <= tolerance,
    )
