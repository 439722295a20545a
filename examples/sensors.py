"""Sensor fan-in: many sensors, few sinks; a sink says which readings it takes, not which sensors.

Each reading is delivered to every sink whose predicate selects it. Start a network (`cbcb run --hold`), then
run this file with nodes of the network: `.venv/bin/python examples/sensors.py [SINK SINK SENSOR...]`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack

import testbed

#: (room, celsius) of the sensors in turn.
READINGS = (("lab", 18.5), ("lab", 24.0), ("server", 31.5), ("server", 22.0), ("roof", -3.0))
PREDICATES = ('quantity = "temperature" and celsius > 23.0', 'quantity = "temperature" and room = "lab"')


def readings(sensors: list[testbed.Client]) -> Iterator[str]:
    """Sends each reading from the next sensor; yields it."""
    for number, (room, celsius) in enumerate(READINGS):
        message = f'quantity = "temperature" room = "{room}" celsius = {celsius}'
        sensors[number % len(sensors)].send_message(message)
        yield message


def main(nodes: list[str]) -> None:
    with ExitStack() as stack:
        sinks = [stack.enter_context(testbed.connect(node, f"sink-{node}")) for node in nodes[:2]]
        sensors = [stack.enter_context(testbed.connect(node, f"sensor-{node}")) for node in nodes[2:]]
        for sink, predicate in zip(sinks, PREDICATES, strict=True):
            sink.subscribe(predicate)
        testbed.running().settle()
        print(f"{len(list(readings(sensors)))} readings")
        for sink, predicate in zip(sinks, PREDICATES, strict=True):
            # Two readings match each predicate.
            arriving = sink.deliveries(timeout=10)
            taken = [next(arriving).attributes["celsius"] for _ in range(2)]
            print(f"{predicate}: {sorted(taken)}")


if __name__ == "__main__":
    main(sys.argv[1:] or ["0", "4", "1", "2", "3"])
