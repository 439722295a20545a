"""The network effect, emulated: the applications of one router, and of the routers of a network.

The same receivers with the same predicates get the same messages at the same times. (A) One router has all
receivers and senders as its applications. (B) Receivers and senders are divided among the routers of a Waxman
network, without covering. The rates are shares of the rate at which the single router delivers messages that
are all sent at once. Delays are from the sender's request until the router has handed the message to the
application; "no path" has the number of deliveries whose path is unknown, and which are in no column of hops.
A burst whose verdict does not hold ends the benchmark: its rate is the base of the loads. A table of few
constraints shows what routers, links and wake-ups take without matching, by the distance in hops. All routers
share this machine's processors. Needs root.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console

from captures.accounting.direct import Direct
from captures.accounting.verdict import HOLDS
from captures.rundir.layout import RunLayout
from router.matching.columns import to_predicates
from router.predicates.model import Message
from router.predicates.printer import format_predicate
from testbed.emulation.run.emulation import emulate
from testbed.experiments.config.load import find_experiment, load_experiment
from testbed.experiments.siena_ff.generate import MatchingWorkload, draw_messages, draw_table
from testbed.machine.probes import datapath
from testbed.results.conclude import judge_run
from testbed.terminal.progress import Progress

#: When the first message is sent: predicates have spread by then.
_FIRST_S = 30.0
#: Constraints of all receivers of a table that takes no time, measured at the lowest load.
_FEW = 1_000
_LOADS = (0.1, 0.5, 0.9)
#: The oracle's window in a burst, to which applications and routers are late by intention.
_BURST_WINDOW_S = 5.0
#: The longest period of messages.
_LONGEST_S = 20.0


def configure(arguments: list[str]) -> dict[str, Any]:
    """The keyword arguments of `main` that a command line asks for."""
    parser = argparse.ArgumentParser(prog="./run.sh bench network_effect", description=__doc__)
    parser.add_argument(
        "--engines",
        type=lambda text: text.split("+"),
        default=["counting", "compiled"],
        metavar="NAME+...",
        help="matching engines (counting+compiled)",
    )
    for name, default, what in (
        ("constraints", 100_000, "of all receivers"),
        ("receivers", 100, "applications"),
        ("routers", 10, "of the network"),
        ("messages", 2_000, "a run, at most"),
    ):
        parser.add_argument(f"--{name}", type=int, default=default, metavar="N", help=f"{what} ({default:,})")
    return vars(parser.parse_args(arguments))


def main(engines: list[str], constraints: int, receivers: int, routers: int, messages: int) -> None:
    """Prints delays of deliveries of both arrangements at each load.

    Raises:
        SystemExit: the verdict on a burst does not hold.
    """
    print(
        f"{'engine':9} {'constraints':>11} {'routers':>7} {'load':>5} {'messages/s':>10} {'deliveries':>10}"
        f" {'median ms':>9} {'90 % ms':>8} {'at 0 hops':>9} {'a hop ms':>8} {'no path':>7}  verdict"
    )
    for engine in engines:
        for size in (_FEW, constraints):
            population = _Population(size, receivers, messages)
            burst = population.run(engine, 1, None)
            burst.show(engine, size, 1, None)
            if burst.verdict != HOLDS:
                raise SystemExit(f"a burst is the base of the loads, and its verdict {burst.verdict}")
            for load in _LOADS[: None if size > _FEW else 1]:
                for count in (1, routers):
                    population.run(engine, count, load * burst.rate).show(engine, size, count, load)


@dataclass(frozen=True)
class _Run:
    """The deliveries of a run.

    Attributes:
        rate: messages a second, from the first sent to the last delivered.
        hops, delays_ms: of each delivery; -1 hops: its path is unknown.
        verdict: and the reasons of another than "holds".
    """

    rate: float
    hops: npt.NDArray[np.int64]
    delays_ms: npt.NDArray[np.float64]
    verdict: str

    def show(self, engine: str, constraints: int, routers: int, load: float | None) -> None:
        at_source, known = self.delays_ms[self.hops == 0], self.hops >= 0
        hops = self.hops[known]
        hop = np.polyfit(hops, self.delays_ms[known], 1)[0] if len(set(hops)) > 1 else None
        print(
            f"{engine:9} {constraints:11,} {routers:7} {'all' if load is None else f'{load:.0%}':>5}"
            f" {self.rate:10,.0f} {len(self.delays_ms):10,} {np.median(self.delays_ms):9.2f}"
            f" {np.percentile(self.delays_ms, 90):8.2f}"
            f" {f'{np.median(at_source):.2f}' if len(at_source) else '':>9}"
            f" {'' if hop is None else f'{hop:.2f}':>8} {np.count_nonzero(~known):7,}  {self.verdict}",
            flush=True,
        )


class _Population:
    """Receivers with their predicates, and messages, as drawn for the measurements of matching."""

    def __init__(self, constraints: int, receivers: int, messages: int) -> None:
        workload = MatchingWorkload(constraints=constraints, interfaces=receivers, messages=messages)
        self._predicates = {
            receiver: format_predicate(predicate)
            for receiver, predicate in to_predicates(draw_table(workload)).items()
        }
        self._messages = list(draw_messages(workload))

    def run(self, engine: str, routers: int, rate: float | None) -> _Run:
        """Emulates the population on so many routers.

        Args:
            rate: messages a second; None: all at once.
        """
        messages = self._messages if rate is None else self._messages[: most_messages(rate)]
        with tempfile.TemporaryDirectory(prefix="cbcb-network-effect-") as folder:
            trace = Path(folder) / "trace.jsonl"
            last_s = self._write(trace, messages, routers, rate)
            overrides = {
                "topology.generator": "waxman" if routers > 1 else "line",
                "topology.nodes": str(routers),
                "duration_s": str(last_s + 1),
                "time_scale": "1",
                "protocol.matcher": engine,
                "protocol.covering": "none",
                # A router hears all its applications before its second RA, of all their predicates.
                "protocol.ra_min_interval_s": "10",
                "record": "false",
                "workload.trace": str(trace),
                "workload.first_message_s": "0",
            }
            if rate is None:
                overrides["oracle.in_flight_window_s"] = str(_BURST_WINDOW_S)
            experiment = load_experiment(find_experiment("default"), overrides)
            run = emulate(experiment, Path(folder), datapath(), Progress(Console(quiet=True)))
            judge_run(RunLayout(run), experiment)
            with Direct(run) as direct:
                return _measured(direct)

    def _write(self, path: Path, messages: Sequence[Message], routers: int, rate: float | None) -> float:
        """Writes the trace; returns the second of the last message."""
        random, at_s = Random(1), _FIRST_S
        lines: list[dict[str, Any]] = [
            {
                "at_s": 0.0,
                "node": receiver % routers,
                "app": f"receiver-{receiver}",
                "action": "set_predicate",
                "predicate": predicate,
            }
            for receiver, predicate in self._predicates.items()
        ]
        for message in messages:
            # Drawn in both arrangements, so that the messages come at the same times.
            node = random.randrange(1_000_000) % routers
            at_s += random.expovariate(rate) if rate is not None else 0.0
            lines.append({"at_s": at_s, "node": node, "action": "send_message", "attributes": dict(message)})
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return at_s


def most_messages(rate: float) -> int:
    """Returns the most messages of a run with so many a second: those of `_LONGEST_S`, at least one."""
    return max(1, round(rate * _LONGEST_S))


def _measured(direct: Direct) -> _Run:
    """Raises SystemExit if nothing was delivered."""
    summary = direct.summary()
    found = direct.sql(
        "select outcomes.sent_ns as sent, delivered_ns as delivered, "
        "case when outcomes.node = outcomes.source then 0 else coalesce(hops, -1) end as hops "
        "from outcomes left join arrivals using (source, seq, node) where outcomes.deliveries > 0"
    )
    sent, delivered, hops = (found[name].to_numpy() for name in ("sent", "delivered", "hops"))
    if not len(delivered):
        raise SystemExit("no message was delivered: too few messages, or none that a receiver selects")
    lasted_s = (delivered.max() - sent.min()) / 1e9
    verdict = "; ".join([str(summary["verdict"]), *summary["verdict_reasons"]])
    return _Run(len(direct.inputs.log.sent) / lasted_s, hops, (delivered - sent) / 1e6, verdict)
