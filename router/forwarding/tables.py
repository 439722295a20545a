"""Broadcast tables and entries of a routing table as arrays for compiled code."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from router.forwarding.layout import (
    CHILD_WIDTH,
    CLASS_WIDTH,
    EPOCH_WIDTH,
)
from router.native.memory import address_of
from router.protocol.broadcast import EpochTable
from router.protocol.core.router import ForwardingState
from router.wire.frames import CLASS_DTYPE
from router.wire.header import LOCAL_INTERFACE, PORTS_PER_PAGE

_Longs = npt.NDArray[np.int64]


class LaidOutEpochs:
    """The broadcast tables of all held epochs.

    Attributes:
        rows: int64 [epochs, EPOCH_WIDTH].
    """

    def __init__(self, state: ForwardingState) -> None:
        #: Arrays whose addresses are in the rows.
        self._kept: list[npt.NDArray[np.generic]] = []
        # Newest first: most frames are of the current epoch.
        tables = sorted(state.tables.held(), key=lambda table: table.epoch, reverse=True)
        self.rows: _Longs = np.zeros((len(tables), EPOCH_WIDTH), np.int64)
        for row, table in zip(self.rows, tables, strict=True):
            class_of = np.ascontiguousarray(table.class_of, CLASS_DTYPE)
            classes, children = _rows(state, table)
            row[:] = (
                table.epoch,
                address_of(class_of),
                len(class_of),
                address_of(classes),
            )
            self._kept += [class_of, classes, children]


def _rows(state: ForwardingState, table: EpochTable) -> tuple[_Longs, _Longs]:
    """The rows of classes, by number, and of their children."""
    rows: list[tuple[int, int, int, int]] = []
    spans = [(0, 0)]
    senders = [-1]
    for branch in table.classes:
        entries = state.scheme.deciding_entries(table, branch)
        first = len(rows)
        if entries is not None:
            rows += [_child(interface, entry) for interface, entry in entries]
        decided = entries is not None and branch.parent != LOCAL_INTERFACE
        senders.append(table.neighbours[branch.parent] if decided else -1)
        spans.append((first, len(rows)))
    children: _Longs = np.array(rows, np.int64).reshape(-1, CHILD_WIDTH)
    classes: _Longs = np.empty((len(senders), CLASS_WIDTH), np.int64)
    classes[:, 0] = senders
    classes[:, 1:] = address_of(children) + children.itemsize * CHILD_WIDTH * np.array(spans)
    return classes, children


def _child(interface: int, entry: int | None) -> tuple[int, int, int, int]:
    page, bit = divmod(interface - 1, PORTS_PER_PAGE)
    return interface, -1 if entry is None else entry, page, 1 << bit


def dense_numbers(numbers: Mapping[int, int]) -> npt.NDArray[np.int32]:
    """int32 by entry of the routing table: its number in the matcher, 0 for an entry that it lacks."""
    dense = np.zeros(max(numbers, default=0) + 1, np.int32)
    dense[list(numbers)] = list(numbers.values())
    return dense
