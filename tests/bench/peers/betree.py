"""BE-Tree: filters in the leaves of a tree that alternates between slots and halves of their domains.

Source: Sadoghi, Jacobsen: "BE-Tree: An index structure to efficiently match Boolean expressions over
high-dimensional discrete space", SIGMOD 2011. A node has a leaf list of filters and, by slot, the node of
the whole domain of the slot below it; a node of a domain may have a node for each half of it. A filter goes
to a slot below with the most filters for the size of its domain, and down to the smallest half that has its
whole interval. An overfull leaf splits by halves first, then by slots that are new on the way from the root.

A deleted filter leaves its nodes, which later filters use.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from router.native import I64, Array, Flag, Tuple
from tests.bench.peers import Boxes, Peer, accepts, callee, kernel, part_of, scratch, spread
from tests.bench.peers.hashed import find, find_or_put
from tests.bench.peers.lists import halvings, row_of

#: Columns of a node: the first filter of its leaf or -1, how many it has, how many make it overfull; its
#: lower half, before the upper, or 0; the first node of a slot below, the next beside it, how many are below;
#: its slot and range of parts; the node above; the filters in it and below.
_FIRST, _SIZE, _FULL, _LOWER, _BELOW, _NEXT, _FAN, _SLOT, _LOW, _HIGH, _ABOVE, _ALL = range(12)


@callee
def _within(tree: Tuple, boxes: Tuple, row: I64, node: I64) -> Flag:
    """Whether the interval of a row is within the parts of a node of its slot."""
    own, nodes, (lowest, scale, parts) = boxes[2][row], tree[0][0], tree[2]
    low = part_of(boxes[3][row], lowest[own], scale[own], parts[own])
    high = part_of(boxes[4][row], lowest[own], scale[own], parts[own])
    return low >= nodes[node, _LOW] and high < nodes[node, _HIGH]


@callee
def _append(tree: Tuple, node: I64, filter_: I64) -> None:
    """Adds a filter to a leaf."""
    nodes, after, _, home, _, _ = tree[0]
    after[filter_], nodes[node, _FIRST] = nodes[node, _FIRST], filter_
    nodes[node, _SIZE] += 1
    home[filter_] = node


@callee
def _new(tree: Tuple, boxes: Tuple, above: I64, slot: I64, low: I64, high: I64) -> I64:
    """Makes a node, moves the filters within it from the leaf of the node above, and has it split."""
    nodes, after, used, _, pending, _ = tree[0]
    node = used[0]
    nodes[node, _FIRST], nodes[node, _FULL], nodes[node, _ABOVE] = -1, tree[3], above
    nodes[node, _SLOT], nodes[node, _LOW], nodes[node, _HIGH] = slot, low, high
    pending[used[1]] = node
    used += 1
    filter_ = nodes[above, _FIRST]
    nodes[above, _FIRST], nodes[above, _SIZE] = -1, 0
    while filter_ >= 0:
        following = after[filter_]
        row = row_of(boxes, filter_, slot)
        inside = row >= 0 and _within(tree, boxes, row, node)
        _append(tree, node if inside else above, filter_)
        filter_ = following
    nodes[node, _ALL] = nodes[node, _SIZE]
    return node


@callee
def _best_slot(tree: Tuple, boxes: Tuple, node: I64) -> I64:
    """The slot, new on the way from the root, with the most filters of a leaf for its parts; -1: none."""
    (nodes, after, _, _, _, tally), parts = tree[0], tree[2][2]
    first, count, slot, _, _ = boxes
    tally[:] = 0
    above = node
    while above:
        tally[nodes[above, _SLOT]] = -(1 << 30)
        above = nodes[above, _ABOVE]
    best, most = -1, 0.0
    filter_ = nodes[node, _FIRST]
    while filter_ >= 0:
        for row in range(first[filter_], first[filter_] + count[filter_]):
            own = slot[row]
            tally[own] += 1
            if tally[own] / parts[own] > most:
                best, most = own, tally[own] / parts[own]
        filter_ = after[filter_]
    return best


@callee
def _split(tree: Tuple, boxes: Tuple) -> Flag:
    """Splits the pending nodes until none is overfull; false: first `nodes` must have more room."""
    (nodes, _, used, _, pending, tally), (table, below, fill), (_, _, parts), full = tree
    while used[1]:
        node = pending[used[1] - 1]
        own = nodes[node]
        if own[_SIZE] <= own[_FULL]:
            used[1] -= 1
        elif used[0] + 2 > len(nodes):
            return False
        elif node and not own[_LOWER] and own[_HIGH] - own[_LOW] > 1:
            middle = (own[_LOW] + own[_HIGH]) >> 1
            own[_LOWER] = _new(tree, boxes, node, own[_SLOT], own[_LOW], middle)
            _new(tree, boxes, node, own[_SLOT], middle, own[_HIGH])
        else:
            best = _best_slot(tree, boxes, node)
            if best < 0:
                own[_FULL] = (own[_SIZE] + full - 1) // full * full
                continue
            child = _new(tree, boxes, node, best, 0, parts[best])
            below[find_or_put(table, fill, node * len(tally) + best)] = child
            nodes[child, _NEXT], own[_BELOW] = own[_BELOW], child
            own[_FAN] += 1
    return True


@callee
def _leaf(tree: Tuple, boxes: Tuple, filter_: I64) -> I64:
    """The node to whose leaf a new filter goes."""
    nodes, slots, (table, below, _), parts = tree[0][0], len(tree[0][5]), tree[1], tree[2][2]
    first, count, slot, _, _ = boxes
    node, chosen = 0, -1
    while True:
        while chosen >= 0 and nodes[node, _LOWER]:
            half = nodes[node, _LOWER]
            if _within(tree, boxes, chosen, half + 1):
                node = half + 1
            elif _within(tree, boxes, chosen, half):
                node = half
            else:
                break
        best, most = -1, -1.0
        for row in range(first[filter_], first[filter_] + count[filter_]):
            entry = find(table, node * slots + slot[row])
            if entry >= 0 and nodes[below[entry], _ALL] / parts[slot[row]] > most:
                best, most, chosen = below[entry], nodes[below[entry], _ALL] / parts[slot[row]], row
        if best < 0:
            return node
        node = best


@callee
def _count(nodes: Array, node: I64, by: I64) -> None:
    """Adds to the number of filters of a node and of those above."""
    while node:
        nodes[node, _ALL] += by
        node = nodes[node, _ABOVE]


@kernel
def _add(tree: Tuple, boxes: Tuple, first: I64, last: I64) -> I64:
    """Adds the filters first to last - 1; returns last + 1, or from where to go on after `_enlarge`."""
    nodes, _, used, _, pending, _ = tree[0]
    for filter_ in range(first, last + 1):
        if not _split(tree, boxes):
            return filter_
        if filter_ < last and boxes[1][filter_] >= 0:
            node = _leaf(tree, boxes, filter_)
            _append(tree, node, filter_)
            _count(nodes, node, 1)
            pending[0], used[1] = node, 1
    return last + 1


@kernel
def _remove(tree: Tuple, filter_: I64) -> None:
    nodes, after, _, home, _, _ = tree[0]
    own = nodes[home[filter_]]
    own[_SIZE] -= 1
    place = own[_FIRST]
    if place == filter_:
        own[_FIRST] = after[filter_]
    else:
        while after[place] != filter_:
            place = after[place]
        after[place] = after[filter_]
    _count(nodes, home[filter_], -1)


@kernel
def _rehash(table: Array, below: Array, new: Array, at: Array, fill: Array) -> None:
    for entry in range(len(table)):
        if table[entry] >= 0:
            at[find_or_put(new, fill, table[entry])] = below[entry]


@kernel
def _search(state: Tuple, slots: Array, keys: Array, found: Array) -> I64:
    ((nodes, after, _, _, stack, _), (table, below, _), (lowest, scale, parts), _), boxes, space = state
    spread(space, slots, keys)
    key_of, epochs, epoch = space
    stack[0], waiting, number = 0, 1, 0
    while waiting:
        waiting -= 1
        node = np.int64(stack[waiting])
        part = 0
        if node:
            slot = nodes[node, _SLOT]
            part = part_of(key_of[slot], lowest[slot], scale[slot], parts[slot])
        while True:
            own = nodes[node]
            filter_ = own[_FIRST]
            while filter_ >= 0:
                if accepts(boxes, filter_, space):
                    found[number] = filter_
                    number += 1
                filter_ = after[filter_]
            if own[_FAN] > len(slots):
                for attribute in range(len(slots)):
                    entry = find(table, node * len(epochs) + slots[attribute])
                    if entry >= 0:
                        stack[waiting] = below[entry]
                        waiting += 1
            else:
                child = own[_BELOW]
                while child:
                    if epochs[nodes[child, _SLOT]] == epoch[0]:
                        stack[waiting] = child
                        waiting += 1
                    child = nodes[child, _NEXT]
            if not own[_LOWER]:
                break
            node = np.int64(own[_LOWER]) + (part >= nodes[own[_LOWER], _HIGH])
    return number


class BeTree(Peer):
    """Node 0 is the root.

    Attributes:
        capacity: filters of a leaf that can still be split.
        depth: halvings of a domain, at most.
    """

    capacity: ClassVar[int] = 3
    depth: ClassVar[int] = 20
    search = staticmethod(_search)

    def __init__(self, boxes: Boxes) -> None:
        super().__init__(boxes)
        self._domains, self._space = halvings(boxes, self.depth), scratch(boxes.slots)
        self._home, self._tally = np.zeros(boxes.room, np.int32), np.zeros(boxes.slots, np.int32)
        self._nodes, self._after = np.zeros((32, 12), np.int32), np.zeros(boxes.room, np.int32)
        self._nodes[0, _FIRST], self._nodes[0, _FULL] = -1, self.capacity
        # The nodes and pending nodes that are in use.
        self._used, self._pending = np.array([1, 0]), np.zeros(32, np.int32)
        self._table, self._below = np.full(0, -1), np.zeros(0, np.int32)
        self._enlarge()
        self._add(0, boxes.room)

    @property
    def _tree(self) -> tuple[Any, ...]:
        lists = self._nodes, self._after, self._used, self._home, self._pending, self._tally
        return lists, (self._table, self._below, self._fill), self._domains, self.capacity

    @property
    def state(self) -> tuple[Any, ...]:
        return self._tree, self.boxes.state, self._space

    def _enlarge(self) -> None:
        """Doubles the room for nodes."""
        self._nodes, self._pending = (
            np.concatenate([held, np.zeros_like(held)]) for held in (self._nodes, self._pending)
        )
        room = len(self._nodes)
        table, below, self._fill = np.full(2 * room, -1), np.zeros(2 * room, np.int32), np.zeros(1, np.int64)
        _rehash(self._table, self._below, table, below, self._fill)
        self._table, self._below = table, below

    def _add(self, first: int, last: int) -> None:
        while (first := _add(self._tree, self.boxes.state, first, last)) <= last:
            self._enlarge()

    def _insert(self, number: int) -> None:
        self._add(number, number + 1)

    def _delete(self, number: int) -> None:
        _remove(self._tree, number)


class BeTree20(BeTree):
    capacity = 20


class BeTree100(BeTree):
    capacity = 100
