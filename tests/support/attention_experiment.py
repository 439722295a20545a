"""A small experiment with the attention-limited service, and what its run folder says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from captures.rundir import RunLayout
from captures.rundir.applications import read_attention

#: Low half of a number: the high half is the incarnation, which differs between emulation and simulation.
_COUNTER = (1 << 32) - 1
#: All of the experiment but time scale, strategy and fan-out.
_FILE = Path(__file__).with_suffix(".toml")


def experiment(path: Path, strategy: str, time_scale: float, fan_out: str = "whole") -> Path:
    """Writes the experiment file: a ring of five nodes."""
    rest = _FILE.read_text(encoding="utf-8")
    path.write_text(f'time_scale = {time_scale}\n{rest}strategy = "{strategy}"\nfan_out = "{fan_out}"\n')
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
