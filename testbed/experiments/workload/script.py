"""Writing a workload as a file of the protocol authors' simulator (`testbed.experiments.config.cbcbsim` reads
them)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TextIO

from router.predicates import SYMBOLS, Constraint, Predicate
from router.predicates.parser import parse_predicate
from testbed.experiments.config import Experiment
from testbed.experiments.events import APPLICATION, ApplicationEvent
from testbed.experiments.siena_ff import driver_name, driver_value
from testbed.experiments.workload import Item
from testbed.support.errors import InputError
from topos import PROPERTIES, Topology

#: Seconds of a unit of time in the file: workloads are generated to the microsecond.
_TIME_UNIT = 1e-6


def write_script(topology: Topology, duration_s: float, items: Iterable[Item], out: TextIO) -> None:
    """Writes a topology and a workload as `read_script` reads them; times in microseconds.

    What else an experiment has is lost (`left_out`).

    Raises:
        InputError: an item is neither set_predicate nor send_message, or that of a further application of its
            node: the form has one predicate a node.
    """
    out.write(f"time_unit {_TIME_UNIT:.6f} ;\nsim_length {_units(duration_s)} ;\n")
    for node in topology.nodes:
        out.write(f"node {node.id} {node.x or 0:.15g} {node.y or 0:.15g} ;\n")
    for link in topology.links:
        out.write(f"link {link.u} {link.v} {link.cost} ;\n")
    for item in items:
        at = f"{item.node} {_units(item.at_s)}"
        if item.app != APPLICATION:
            raise InputError(
                f"{item.action} of application {item.app!r} at node {item.node} at {item.at_s:g} s: the "
                "simulator's form has one application a node"
            )
        if item.action == "set_predicate" and item.predicate is not None:
            out.write(f"set_predicate {at} 0 {_predicate(parse_predicate(item.predicate))};\n")
        elif item.action == "send_message" and item.attributes is not None:
            attributes = (f"{driver_name(name)} = {driver_value(v)}" for name, v in item.attributes.items())
            out.write(f"send_message {at} {' '.join(attributes)} ;\n")
        else:
            raise InputError(
                f"{item.action} at node {item.node} at {item.at_s:g} s: the simulator's form has "
                "set_predicate and send_message alone"
            )


def left_out(experiment: Experiment) -> Iterator[str]:
    """Yields, in words, the parts of an experiment's topology and events that the form has no place for."""
    events = Counter(event.action for event in experiment.events if not isinstance(event, ApplicationEvent))
    for action, count in events.items():
        yield f"{count} event{'s' if count > 1 else ''} {action}"
    topology = experiment.topology
    if topology.ids:
        yield "names of nodes"
    for name in PROPERTIES:
        if any(getattr(link, name) is not None for link in topology.links):
            yield f"{name} of links"


def _units(seconds: float) -> int:
    return round(seconds / _TIME_UNIT)


def _predicate(predicate: Predicate) -> str:
    filters = [", ".join(map(_constraint, each)) or "*" for each in predicate]
    return " | ".join(filters) + (" " if filters else "")


def _constraint(constraint: Constraint) -> str:
    name = driver_name(constraint.name)
    if constraint.value is None:
        return f"{name} any {constraint.type.name.lower()}"
    return f"{name} {SYMBOLS[constraint.operator]} {driver_value(constraint.value)}"
