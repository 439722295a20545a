"""Large tables of encoded filters, of constraints and messages on the subjects of `testbed.content`."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import numpy as np
import numpy.typing as npt

from router.matching.bloom.table import BitTable, rows_of
from router.predicates.encoded.encoder import Encoder
from router.predicates.encoded.encodings import ENCODINGS
from router.predicates.encoded.model import Suite
from router.predicates.model import Constraint, Filter, Operator, Type
from testbed.content.drawing import draw_constraint, draw_message
from testbed.content.vocabulary import SUBJECTS

#: Constraints drawn for each attribute; filters are composed of them.
_DRAWN = 300
_KEY = bytes(range(32))


@dataclass(frozen=True)
class Shape:
    """Contents of a table.

    Attributes:
        low, high: constraints a filter, uniform.
        equalities: only constraints with `=` are drawn.
    """

    low: int
    high: int
    equalities: bool


#: `drawn`: as `testbed.content` draws. `equal`: without the weak operators, which the encoding of the slides
#: makes existence constraints that most messages of the subject match. `selective`: a message matches next to
#: no filter, so that no search ends early.
SHAPES = {
    "drawn": Shape(1, 4, False),
    "equal": Shape(1, 4, True),
    "selective": Shape(3, 4, True),
}


@dataclass(frozen=True)
class MessageSizes:
    """See `testbed.content.drawing.Sizes`."""

    attributes_min: int
    attributes_max: int
    filters_min: int = 1
    filters_max: int = 1
    constraints_min: int = 1
    constraints_max: int = 1


def encoder(bits: int, hashes: int, encoding: str = "slides") -> Encoder:
    """The encoder of a fixed key."""
    chosen = ENCODINGS[encoding]()
    return Encoder(Suite(1, bits, hashes, chosen.number), _KEY, chosen)


def draw_table(own: Encoder, shape: Shape, filters: int, interfaces: int, seed: int = 1) -> BitTable:
    """Draws filters, each on one subject, for interfaces 1 to `interfaces` in turn."""
    source, random = Random(seed), np.random.default_rng(seed)
    pools = np.stack(
        [
            rows_of(
                [own.filter(Filter((drawn,))).row for drawn in _draw(source, shape, name, kind)],
                own.suite.bits,
            )
            for subject in SUBJECTS
            for name, kind in subject.attributes.items()
        ]
    )
    attributes = [len(subject.attributes) for subject in SUBJECTS]
    first = np.cumsum([0, *attributes])
    demand = np.array([subject.demand for subject in SUBJECTS])
    subject = random.choice(len(SUBJECTS), filters, p=demand / demand.sum())
    names = random.random((filters, max(attributes)))
    names[np.arange(max(attributes)) >= np.array(attributes)[subject][:, None]] = 2
    chosen_names = np.argsort(names, axis=1)[:, : shape.high]
    sizes = random.integers(shape.low, shape.high + 1, filters)
    rows = np.zeros((filters, pools.shape[2]), np.uint64)
    for number in range(shape.high):
        chosen = pools[first[subject] + chosen_names[:, number], random.integers(0, _DRAWN, filters)]
        chosen[sizes <= number] = 0
        rows |= chosen
    return BitTable(rows, (1 + np.arange(filters) % interfaces).astype(np.int32))


def _encoded(own: Encoder, constraints: list[Constraint]) -> npt.NDArray[np.uint64]:
    """The rows of filters of one constraint."""
    return rows_of([own.filter(Filter((drawn,))).row for drawn in constraints], own.suite.bits)


def _draw(source: Random, shape: Shape, name: str, kind: Type) -> list[Constraint]:
    found: list[Constraint] = []
    while len(found) < _DRAWN:
        constraint = draw_constraint(source, name, kind)
        if not shape.equalities or constraint.operator is Operator.EQ:
            found.append(constraint)
    return found


def draw_messages(own: Encoder, count: int, attributes: int = 10, seed: int = 2) -> list[bytes]:
    """Draws messages and returns B_m of each."""
    source, sizes = Random(seed), MessageSizes(attributes, attributes)
    octets = own.suite.octets
    return [own.message_bits(draw_message(source, sizes)).to_bytes(octets, "little") for _ in range(count)]
