"""A live run on a terminal as a table that stays in place, or otherwise as plain lines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from testbed.terminal.numbers import clock, count
from testbed.terminal.text import foreign

_BUSIEST = 5
_BAR = 24
Snapshot = Mapping[str, Any]


def live_table(snapshot: Snapshot, topology: Mapping[str, Any], url: str | None) -> RenderableType:
    """Returns the snapshot as a table: verdict so far, frames by type, deliveries, the busiest links."""
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    verdict = snapshot["verdict"]
    style = (
        "bold red" if verdict["reasons"] else "bold blue" if verdict["state"].startswith("holds") else "bold"
    )
    table.add_row("verdict", foreign("; ".join([verdict["state"], *verdict["reasons"]]), style))
    table.add_row("time", f"{_clock(snapshot)}, {snapshot['phase']}")
    table.add_row("frames", foreign(_frames(snapshot)))
    messages = snapshot["messages"]
    table.add_row(
        "messages",
        f"{count(messages['sent'])} sent, {count(messages['sent'] - messages['judged'])} to be judged",
    )
    table.add_row("deliveries", _deliveries(messages))
    label = {node["id"]: node["label"] for node in topology["nodes"]}
    ends = {link["index"]: f"{label[link['u']]}-{label[link['v']]}" for link in topology["links"]}
    in_use = [link for link in snapshot["links"] if link["recent"]]
    busiest = sorted(in_use, key=lambda link: (-link["recent"], -link["frames"]))[:_BUSIEST]
    most = max((link["recent"] for link in busiest), default=0)
    for position, link in enumerate(busiest):
        bar = "█" * round(_BAR * link["recent"] / most) if most else ""
        line = Text.assemble(
            foreign(f"{ends[link['index']]:>9}  {link['recent']:7.1f} frames/s  "),
            (bar, "blue"),
            no_wrap=True,
        )
        table.add_row("busiest links" if position == 0 else "", line)
    if url is not None:
        table.add_row("page", Text(url, overflow="fold"))
    return Group(table)


def live_line(snapshot: Snapshot) -> str:
    """Returns the snapshot in one line."""
    return (
        f"live: {_clock(snapshot)}; frames: {_frames(snapshot)}; "
        f"{count(snapshot['messages']['sent'])} messages sent; "
        f"{_deliveries(snapshot['messages'])}; verdict {snapshot['verdict']['state']}"
    )


def _clock(snapshot: Snapshot) -> str:
    return clock(snapshot["clock_s"] or 0, snapshot["run"]["duration_s"])


def _frames(snapshot: Snapshot) -> str:
    stream = snapshot["stream"]
    if stream["state"] == "starting":
        return "none yet: Spark is starting"
    if stream["state"] == "failed":
        return f"the stream failed: {stream['detail']}"
    frames = {name: number for name, number in snapshot["frames"].items() if number}
    by_type = ", ".join(f"{name} {count(number)}" for name, number in frames.items())
    return count(sum(frames.values())) + (f" ({by_type})" if by_type else "")


def _deliveries(messages: Mapping[str, int]) -> str:
    return (
        f"{count(messages['delivered'])} delivered, "
        f"{count(messages['made'])} of {count(messages['expected'])} expected, "
        f"{count(messages['missing'])} missed, {count(messages['spurious'])} spurious"
    )
