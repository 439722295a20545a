"""Classes of broadcast trees: a router's part in the trees of many sources, as arrays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from router.wire.format import RECORDS
from router.wire.header import masks_of

#: Of `frames.BroadcastTable.class_of`: as wide as the field `class_number` of the format.
CLASS_DTYPE = np.dtype(np.uint16)
#: A router's trees have at most so many classes: the numbers of the field `class_number` but 0.
CLASS_MAX = int(np.iinfo(CLASS_DTYPE).max)
#: Bits of a child as sent (record CHILD): two flags and its interface.
REUSABLE, OFF_TREE, CHILD_MAX = masks_of(RECORDS["CHILD"]).values()


@dataclass(frozen=True, slots=True)
class TreeClass:
    """How one router takes part in the broadcast trees of some sources.

    B(s, i) is `children` for i = `parent` and empty for every other interface; at the source itself
    `parent` is interface 0 (local applications). T_s holds the paths on which frames are accepted. Where a
    broadcast layer sends frames beyond it (reverse-path forwarding), the children it sends to in vain are
    named in `off_tree`.

    A class is a parent and a set of nodes: two sources are of one class exactly when the router has the same
    parent in both trees and its subtree holds the same nodes. RA ingress filtering is sound between
    such sources only (docs/adr/0002).
    """

    parent: int
    children: tuple[int, ...]
    #: Those children, in their order, beyond which the trees hold exactly the nodes that this router's own
    #: tree holds there: where a UR may be reused and an SR answered from the table (paper, section 3.5.4).
    reusable: tuple[int, ...] = ()
    #: Those children, in their order, beyond which the trees hold no node: the neighbour drops the frames of
    #: this router (its reverse path to the source is another). An SR gets no UR from such a child.
    off_tree: tuple[int, ...] = ()


@dataclass(slots=True, eq=False, repr=False)
class TreeClasses:
    """The classes of a router in the order of their numbers, in a few bytes each.

    The children of the class at index `i` are those from `first[i]` to before `first[i + 1]`.

    Attributes:
        parents: uint16: parent interface of each class.
        first: uint32 [classes + 1], from 0 to the number of children.
        children: uint16: children of all classes as sent, each an interface with its flags.
    """

    parents: npt.NDArray[np.uint16]
    first: npt.NDArray[np.uint32]
    children: npt.NDArray[np.uint16]

    def __len__(self) -> int:
        return len(self.parents)

    def __getitem__(self, index: int) -> TreeClass:
        if index < 0:  # NumPy would count from the end
            raise IndexError(index)
        words = self.children[self.first[index] : self.first[index + 1]].tolist()
        return TreeClass(
            int(self.parents[index]),
            tuple([word & CHILD_MAX for word in words]),
            tuple([word & CHILD_MAX for word in words if word & REUSABLE]),
            tuple([word & CHILD_MAX for word in words if word & OFF_TREE]),
        )

    def __iter__(self) -> Iterator[TreeClass]:
        return (self[index] for index in range(len(self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TreeClasses) and all(
            np.array_equal(getattr(self, name), getattr(other, name)) for name in self.__slots__
        )

    def __repr__(self) -> str:
        return repr(tuple(self))
