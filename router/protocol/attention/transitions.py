"""The index of a publication, as one table (attention paper, section 4.1 and figure 1).

Rows are tried in order; the first whose conditions hold applies. docs/attention.md has the reasons of the
rows that the paper leaves open.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import product

from router.protocol.attention.events import Index


class Occasion(Enum):
    """An occasion on which a publication changes its index.

    The value names the conditions that matter then, in their order.
    """

    # An enumeration's own hash is computed in Python.
    __hash__ = object.__hash__

    #: An application uploads it, or the router takes custody of it.
    #: local: an unsatisfied local subscription matches; pushed: the strategy sends it at once.
    UPLOAD = ("local", "pushed")
    #: It is pending here, and a subscription of another router selects it.
    SELECTED = ("dispatched",)
    #: A frame brings it, and it is in no index here.
    #: taken: an unsatisfied local subscription matches, and may take it; pf: its pending flag; forwarded: it
    #: goes on to other routers, or is a copy that a neighbour flushed; addressed: this router is among its
    #: homes; en_route: the option, or of a flushed copy whether the cache has room for it.
    ARRIVAL = ("taken", "pf", "forwarded", "addressed", "en_route")
    #: A local subscription takes it from an index.
    TAKEN = ("ppt", "opt")


@dataclass(frozen=True, slots=True)
class Transition:
    """A row of the table.

    Attributes:
        name: of the row, as in docs/attention.md.
        when: condition -> the value for which the row applies; a condition that is missing may be either.
        after: the index afterwards; None: none.
        dispatched: the flag DF afterwards, of a pending publication.
    """

    name: str
    occasion: Occasion
    when: Mapping[str, bool]
    after: Index | None
    dispatched: bool = False


TABLE = (
    Transition("U1", Occasion.UPLOAD, {"local": False, "pushed": False}, Index.PPT),
    Transition("U2", Occasion.UPLOAD, {"local": True, "pushed": False}, Index.PPT, dispatched=True),
    Transition("U3", Occasion.UPLOAD, {"local": False, "pushed": True}, Index.OPT),
    Transition("U4", Occasion.UPLOAD, {"local": True, "pushed": True}, Index.DPT),
    Transition("P1", Occasion.SELECTED, {"dispatched": False}, Index.OPT),
    Transition("P1", Occasion.SELECTED, {"dispatched": True}, Index.DPT),
    Transition("T1", Occasion.ARRIVAL, {"taken": True}, Index.DPT),
    Transition("T3", Occasion.ARRIVAL, {"pf": True, "addressed": True}, Index.OPT),
    Transition("T3", Occasion.ARRIVAL, {"pf": True, "forwarded": False}, Index.OPT),
    Transition("T2", Occasion.ARRIVAL, {"pf": True, "forwarded": True, "en_route": True}, Index.OPT),
    Transition("T4", Occasion.ARRIVAL, {"pf": False, "forwarded": True, "en_route": True}, Index.DPT),
    Transition("T5", Occasion.ARRIVAL, {"forwarded": True}, None),
    Transition("T6", Occasion.ARRIVAL, {"pf": False, "forwarded": False}, None),
    Transition("L1", Occasion.TAKEN, {"ppt": True}, Index.PPT, dispatched=True),
    Transition("L1", Occasion.TAKEN, {"opt": True}, Index.DPT),
    Transition("L1", Occasion.TAKEN, {"ppt": False, "opt": False}, Index.DPT),
)


def _first(occasion: Occasion, facts: tuple[bool, ...]) -> Transition:
    known = dict(zip(occasion.value, facts, strict=True))
    for row in TABLE:
        if row.occasion is occasion and all(known[name] is value for name, value in row.when.items()):
            return row
    raise AssertionError(f"no row for {occasion.name} with {known}")


_ROWS = {
    (occasion, *facts): _first(occasion, facts)
    for occasion in Occasion
    for facts in product((False, True), repeat=len(occasion.value))
}


def transition(occasion: Occasion, *facts: bool) -> Transition:
    """The row that applies.

    Args:
        facts: whether each condition of the occasion holds, in their order.
    """
    return _ROWS[(occasion, *facts)]
