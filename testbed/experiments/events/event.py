"""Events of an experiment, [[events]] in its file: a class for each action.

The fields of a class are the keys of its section (`router.options.option`).
`testbed.experiments.events.network` lists all classes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from router.options import SECONDS_MAX, Unit, option
from topos.model import Topology

#: A key, and the problem with its value.
Problem = tuple[str, str]


@dataclass(frozen=True)
class Event:
    """Something that happens at `at_s`.

    Attributes:
        action: name of the class in experiment files.
        doc: a sentence for the documents.
    """

    action: ClassVar[str]
    doc: ClassVar[str]

    at_s: float = field(
        metadata=option("Time of the event.", low=0, high=SECONDS_MAX, unit=Unit.EXPERIMENT_SECONDS)
    )

    @property
    def ends_s(self) -> float:
        """Time at which the last part of the event happens, in experiment seconds."""
        return self.at_s

    def check(self, topology: Topology) -> Iterator[Problem]:  # noqa: ARG002 - for subclasses
        """Yields what is wrong with the event in this topology."""
        yield from ()


def duration(doc: str) -> Mapping[str, Any]:
    """The metadata of a field that is a time in experiment seconds, above 0."""
    return option(doc, low=0, above_low=True, high=SECONDS_MAX, unit=Unit.EXPERIMENT_SECONDS)


def check_node(node: int, topology: Topology) -> Iterator[Problem]:
    """Yields a problem with the key `node` if the topology has no such node."""
    last = len(topology.nodes) - 1
    if node > last:
        yield "node", f"there is no node {node}; expected 0 to {last}"
