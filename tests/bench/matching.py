"""The matching engines on one table of random predicates, as the workload generator makes them."""

from __future__ import annotations

import statistics
import time
from dataclasses import replace
from pathlib import Path

from router.matching.factory import ENGINES, factory
from router.predicates.model import Message
from router.predicates.parser import parse_predicate
from testbed.config.load import load_experiment
from testbed.workload.generate import generate

_DEFAULT = Path(__file__).resolve().parents[2] / "testbed" / "experiments" / "default.toml"


def main(interfaces: int = 50, rounds: int = 5) -> None:
    """Prints the median time per message, and the ratio to the naive engine, in one run."""
    overrides = {"topology.nodes": str(interfaces), "workload.receivers_percent": "100", "time_scale": "1"}
    experiment = load_experiment(_DEFAULT, overrides)
    assert experiment.workload is not None
    workload = generate(replace(experiment, events=()))
    first = {item.node: item.predicate for item in reversed(workload.items) if item.predicate is not None}
    table = {node + 1: parse_predicate(text) for node, text in first.items()}
    messages = [Message(item.attributes) for item in workload.items if item.attributes is not None][:500]
    constraints = sum(len(f) for p in table.values() for f in p)
    print(f"{len(table)} interfaces, {constraints} constraints, {len(messages)} messages, median of {rounds}")
    engines = {name: factory(name) for name in ENGINES}
    for engine in engines.values():
        for interface, predicate in table.items():
            engine.set_predicate(interface, predicate)
    seconds: dict[str, list[float]] = {name: [] for name in engines}
    for _ in range(rounds):
        for name, engine in engines.items():
            started = time.perf_counter()
            for message in messages:
                engine.match(message)
            seconds[name].append((time.perf_counter() - started) / len(messages))
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    for name, value in medians.items():
        print(f"{name:10} {value * 1e6:8.1f} us per message, {medians['naive'] / value:5.1f} x naive")
