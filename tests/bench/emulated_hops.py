"""The cost of a message at each router of the default experiment, emulated, with many more messages.

The 20 routers run on real links, switches and captures; their CPU seconds are the kernel's, from their
counters. Two runs of each engine, one with few messages and one with many: the difference between them is
the cost of the messages, without start, tables and advertisements. Needs root.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console

from testbed.config.load import load_experiment
from testbed.emulation.emulation import emulate
from testbed.machine.probes import datapath
from testbed.terminal.progress import Progress
from tests.support.paths import ROOT

_DEFAULT = ROOT / "testbed" / "experiments" / "default.toml"
_ENGINES = ["naive", "counting", "compiled"]
_FEW = 3


def configure(arguments: list[str]) -> dict[str, Any]:
    """The keyword arguments of `main` that a command line asks for."""
    parser = argparse.ArgumentParser(prog="./run.sh bench emulated_hops", description=__doc__)
    parser.add_argument("--engines", type=lambda text: text.split("+"), default=_ENGINES, metavar="NAME+...")
    parser.add_argument(
        "--rate", type=int, default=300, metavar="N", help="messages a minute of each sender (300)"
    )
    parser.add_argument("--no-record", action="store_true", help="routers record nothing")
    return vars(parser.parse_args(arguments))


def main(engines: list[str], rate: int, no_record: bool) -> None:
    """Prints microseconds of CPU for each message at each router, and messages a second of CPU."""
    print(f"{'engine':10} {'messages':>9} {'us CPU a hop':>13} {'of it user':>11} {'hops/s of CPU':>14}")
    for engine in engines:
        base, full = (_measured(engine, each, not no_record) for each in (_FEW, rate))
        hops, user, system = (after - before for before, after in zip(base, full, strict=True))
        total = user + system
        print(
            f"{engine:10} {hops:9,.0f} {total / hops * 1e6:13.1f} {user / hops * 1e6:11.1f}"
            f" {hops / total:14,.0f}",
            flush=True,
        )


def _measured(engine: str, rate: int, record: bool) -> tuple[float, float, float]:
    """Messages that routers took, and user and system seconds of all routers, in one run."""
    overrides = {
        "protocol.matcher": engine,
        "record": str(record).lower(),
        "workload.messages_per_minute": str(rate),
        "workload.changing_receivers_percent": "0",
    }
    experiment = load_experiment(_DEFAULT, overrides)
    with tempfile.TemporaryDirectory() as folder:
        run = emulate(experiment, Path(folder), datapath(), Progress(Console(quiet=True)))
        routers = json.loads((run / "counters" / "routers.json").read_text()).values()
    return (
        sum(router["messages_received"] + router["messages_sent"] for router in routers),
        sum(router["cpu_user_s"] for router in routers),
        sum(router["cpu_system_s"] for router in routers),
    )
