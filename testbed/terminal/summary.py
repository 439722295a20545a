"""The summary of a run, as printed at its end."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from testbed.terminal import foreign, numbers

#: Engines of the accounting, with their names.
ENGINES = {"spark": "Spark", "duckdb": "DuckDB, without tshark"}
#: Texts of a list that are printed.
_SHOWN_TEXTS = 10
_STYLES = {"holds": "bold blue", "fails": "bold red", "invalid": "bold red"}


def print_summary(console: Console, summary: Mapping[str, Any], report: Path) -> None:
    """Prints verdict, messages and deliveries, frames, evidence, times, and the path of the report.

    The path is on one line so that it can be copied. The text is complete without colour. A key that
    `summary` lacks is a dash.
    """
    verdict, reasons = numbers.verdict(summary)
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    for label, value in _rows(summary):
        table.add_row(label, foreign(value))
    line = "; ".join(filter(None, (f"Verdict: {verdict}", numbers.undecided(summary))))
    headline = foreign(line, _STYLES.get(verdict, "bold"))
    console.print(Group(headline, *(foreign(f"  - {reason}") for reason in reasons), Text(), table))
    console.print(Text.assemble(("report: ", "dim"), foreign(report)), soft_wrap=True)


def _attention(found: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    if found is None:
        return []
    outcomes, broken = found["outcomes"], sum(found["violations"].values())
    satisfied, starved, saved, control = (
        numbers.share(found[key], 1)
        for key in ("satisfied", "starvation", "saved_bandwidth", "control_overhead")
    )
    return [
        (
            "subscriptions",
            f"{numbers.count(found['registrations'])} rounds: {satisfied} satisfied, {starved} starved, "
            f"{numbers.count(outcomes['open'])} open; {numbers.count(broken)} deliveries break a rule",
        ),
        (
            "publications",
            f"{numbers.count(found['publications'])} uploaded, {numbers.count(found['deliveries'])} "
            f"delivered; {saved} of the bandwidth saved, control {control} of that of exhaustive semantics",
        ),
    ]


def _private(found: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    if found is None:
        return []
    causes = ", ".join(f"{numbers.count(count)} {cause}" for cause, count in found["discarded"].items())
    unwanted = found["unwanted_crossings"]
    crossed = "no link was captured" if unwanted is None else f"{numbers.count(unwanted)} unwanted crossings"
    return [
        (
            "private",
            f"{numbers.count(found['delivered'])} delivered to members, {numbers.count(found['kept'])} kept "
            f"({numbers.share(found['precision'], 1)}); discarded: {causes or 'none'}; {crossed}",
        )
    ]


def _rows(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    def total(key: str) -> str:
        return numbers.count(summary.get(key))

    def time(key: str) -> str:
        return numbers.seconds(summary.get(key))

    delay, stretch = summary.get("delivery_delay") or {}, summary.get("stretch") or {}
    frames = ", ".join(
        f"{kind} {numbers.count(value)}" for kind, value in numbers.by_type(summary.get("frames_by_type"))
    )
    rows = [
        ("network", f"{total('routers')} routers, {total('links')} links"),
        ("messages", f"{total('messages_sent')} sent"),
        ("deliveries", f"{total('deliveries_made')} made, {numbers.certain_deliveries(summary)}"),
        (
            "not wanted",
            f"{total('spurious_deliveries')} spurious, {total('duplicate_deliveries')} duplicate",
        ),
        (
            "delivery delay",
            f"{numbers.milliseconds(delay.get('median_s'))} median, "
            f"{numbers.milliseconds(delay.get('p99_s'))} at 99 %; stretch "
            f"{numbers.ratio(stretch.get('stretch_hops_mean'))} in hops, "
            f"{numbers.ratio(stretch.get('stretch_cost_mean'))} in cost",
        ),
        ("false positives", "; ".join(numbers.false_positives(summary))),
        ("crossings", _crossings(summary)),
        *_private(summary.get("private")),
        *_attention(summary.get("attention")),
        ("frames on links", frames or numbers.ABSENT),
        (
            "captures",
            f"{total('frames_captured')} frames, {total('capture_drops')} lost, on {total('links_captured')} "
            f"links and {total('host_links_captured')} host links",
        ),
    ]
    if (rests_on := summary.get("rests_on")) is not None:
        text = f"{rests_on['frames']}; accounted on {ENGINES[rests_on['engine']]}"
        if why := rests_on.get("no_tshark"):
            text += f"; not compared with tshark: {why}"
        rows.append(("rests on", text))
    if summary.get("attention"):  # applications of this service send no messages
        rows = [row for row in rows if row[0] not in ("messages", "deliveries", "not wanted")]
    changes = summary.get("recovery_s")
    if changes:
        trees, advertised = (
            numbers.seconds(max((change[key] for change in changes if change[key] is not None), default=None))
            for key in ("committed_s", "advertised_s")
        )
        lasting = sum(change["committed_s"] is None for change in changes)
        rows.append(
            (
                "recovery",
                f"{len(changes)} changes of the network; at most {trees} to new trees, "
                f"{advertised} to the last advertisement"
                + (f"; {numbers.count(lasting)} NEVER RECOVERED FROM" if lasting else ""),
            )
        )
    for entry in numbers.reconciliations(summary):
        if entry["agrees"] is None:
            result = "not made"
        elif entry["agrees"]:
            result = f"equal, {numbers.count(entry['found'])}"
        else:
            there, accounted = numbers.count(entry["expected"]), numbers.count(entry["found"])
            result = f"DIFFERS: {there} there, {accounted} accounted"
        rows.append((entry["name"], result))
    if not_taken := numbers.frames_not_taken(summary):
        rows.append(("not taken", _first(not_taken)))
    if (lag := summary.get("lag")) is not None:
        rows.append(("lag", _lag(lag, summary["lag_bound"])))
    rows.append(
        (
            "times",
            f"experiment {time('duration_s')}, convergence {time('convergence_s')}, "
            f"bring-up {time('bring_up_s')}, take-down {time('teardown_s')}, "
            f"accounting {time('accounting_s')}",
        )
    )
    return rows


def _first(texts: list[str]) -> str:
    """The first few texts, one a line, and how many more there are."""
    more = [f"and {len(texts) - _SHOWN_TEXTS} more"] if len(texts) > _SHOWN_TEXTS else []
    return "\n".join([*texts[:_SHOWN_TEXTS], *more])


def _crossings(summary: Mapping[str, Any]) -> str:
    found = summary.get("message_crossings")
    if not found or not found["messages"]:
        return numbers.ABSENT
    return (
        f"{numbers.count(found['cbcb'])} of messages; broadcast {numbers.count(found['broadcast'])}, "
        f"unicast {numbers.count(found['unicast'])}, minimal tree {numbers.count(found['minimal'])}"
    )


def _lag(lag: Mapping[str, Any], bound: Mapping[str, Any]) -> str:
    parts = [
        f"{name} {numbers.seconds(found['lag_s'])} ({numbers.seconds(found['lag_wall_s'])} of wall time)"
        for name, found in lag.items()
        if found is not None
    ]
    allowed = f"{numbers.seconds(bound['lag_s'])}, {numbers.seconds(bound['lag_wall_s'])} of wall time"
    return f"{', '.join(parts)}; allowed {allowed}"
