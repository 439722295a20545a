"""The compiled engine."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import numpy.typing as npt

from router.matching.columns import ConstraintColumns, to_columns
from router.matching.compiled.attributes import UNUSUAL
from router.matching.compiled.matching import match
from router.matching.compiled.memory import address_of
from router.matching.compiled.normal import normal_table
from router.matching.compiled.scratch import working_memory
from router.matching.compiled.segment import Segment
from router.predicates.model import Message, Predicate
from router.wire.tlv import decode_message, encode_message


class Quick:
    def __init__(self, columns: ConstraintColumns) -> None:
        numbers, dense = np.unique(columns.interface, return_inverse=True)
        self.numbers = np.concatenate([[-1], numbers])
        self.segment = Segment(normal_table(columns, (dense + 1).astype(np.int32)))
        self.memory = working_memory()
        s = self.segment
        self.memory.fit_table(len(self.numbers), len(s.slot_name), int(s.parts[19]))
        self.row = np.array([self.memory.address, 1, address_of(s.parts)], np.int64)
        self.open = np.ones(len(self.numbers), np.uint8)
        self.open[0] = 0
        self.address, self.open_address = address_of(self.row), address_of(self.open)

    def match_body(self, body: bytes) -> frozenset[int]:
        n = match(body, self.address, self.open_address, len(self.numbers) - 1, 0)
        assert n >= 0, n
        return frozenset(self.numbers[self.memory.found[:n]].tolist())
