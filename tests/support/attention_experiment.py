"""A small experiment with the attention-limited service, and what its run folder says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from captures.rundir import RunLayout
from captures.rundir.applications import read_attention

#: Low half of a number: the high half is the incarnation, which differs between emulation and simulation.
_COUNTER = (1 << 32) - 1
_EVENTS = (
    (2, 0, 'action = "register"\nsubscription = "s"\npredicate = "x = 1"\n'
     "max = 3\nlifetime_s = 6\nfreshness_s = 100"),
    (3, 2, 'action = "publish"\nmessage = "x = 1"'),
    (3.5, 4, 'action = "publish"\nmessage = "x = 1 y = 2"'),
    (4, 0, 'action = "publish"\nmessage = "x = 1"'),
    (4.2, 1, 'action = "publish"\nmessage = "x = 2"'),
    # The first round is over: routers have no entry for it any more.
    (8.5, 3, 'action = "publish"\nmessage = "x = 1"'),
    (9, 0, 'action = "refresh"\nsubscription = "s"'),
    (10, 1, 'action = "register"\nsubscription = "t"\npredicate = "x = 2 or y = 2"\n'
     "max = 5\nlifetime_s = 4\nfreshness_s = 100"),
    (16, 1, 'action = "unregister"\nsubscription = "t"'),
)  # fmt: skip


def experiment(path: Path, strategy: str, time_scale: float, fan_out: str = "whole") -> Path:
    """Writes the experiment file: a ring of five nodes."""
    head = f"""
duration_s = 18
time_scale = {time_scale}
workload = false
[topology]
generator = "ring"
nodes = 5
[service]
kind = "attention"
strategy = "{strategy}"
fan_out = "{fan_out}"
record_caches = true
"""
    events = (f"\n[[events]]\nat_s = {at}\nnode = {node}\n{body}\n" for at, node, body in _EVENTS)
    path.write_text(head + "".join(events))
    return path


def records(run_dir: Path) -> list[dict[str, Any]]:
    """The records of the service in order of time, with numbers that do not depend on incarnations."""
    found: list[dict[str, Any]] = [dict(record) for _, record in read_attention(RunLayout(run_dir))]
    for record in found:
        for name in ("subscription", "seq"):
            if name in record:
                record[name] &= _COUNTER
    return sorted(found, key=lambda record: record["at_s"])


def deliveries(run_dir: Path) -> list[tuple[int, int, int, int, str]]:
    """(Home, round, source, number of the publication, whence) of every delivery, sorted."""
    return sorted(
        (each["node"], each["round"], each["source"], each["seq"], each["whence"])
        for each in records(run_dir)
        if each["event"] == "deliver"
    )


def outcomes(run_dir: Path) -> list[tuple[int, int, str, int]]:
    """(Home, round, outcome, publications) of every round, in order of time."""
    return [
        (each["node"], each["round"], each["outcome"], each["got"])
        for each in records(run_dir)
        if each["event"] == "outcome"
    ]


#: The publications 2/1, 4/1, 0/1 and 3/1 match the subscription of node 0; 1/1 and 4/1 that of node 1, which
#: gets none that was sent to another node before.
DELIVERIES = [
    (0, 0, 0, 1, "upload"),
    (0, 0, 2, 1, "remote"),
    (0, 0, 4, 1, "remote"),
    # It was uploaded when nobody needed it, and pulled by the refreshed subscription.
    (0, 1, 3, 1, "remote"),
    (1, 0, 1, 1, "ppt"),
]
