"""A table of predicates as columns: the form in which large tables are generated, parsed and indexed.

Five million constraints as Python objects take minutes and gigabytes; as arrays they take seconds and 20
bytes each.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class ConstraintColumns:
    """F filters with C constraints in all, of any number of interfaces.

    Attributes:
        interface: int32 [F], the interface of each filter, in ascending order.
        start: int64 [F + 1], filter f has the constraints start[f] to start[f + 1] - 1.
        name: int32 [C], index into `names`.
        type: uint8 [C], `router.predicates.model.Type`.
        operator: uint8 [C], `router.predicates.model.Operator` as a number of the wire format.
        value: int64 [C]; an integer as it is, a boolean as 0 or 1, a double by its bit pattern, a string
            as its index into `strings`; 0 for the operator `any`.
        names: different names, UTF-8.
        strings: different strings, UTF-8.
    """

    interface: npt.NDArray[np.int32]
    start: npt.NDArray[np.int64]
    name: npt.NDArray[np.int32]
    type: npt.NDArray[np.uint8]
    operator: npt.NDArray[np.uint8]
    value: npt.NDArray[np.int64]
    names: list[bytes]
    strings: list[bytes]
