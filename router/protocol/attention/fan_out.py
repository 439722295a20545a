"""How a SUB that leaves through several children asks for the publications that are lacking.

Attention paper, section 4.2: "max" is decremented along a path; the paper does not say what the branches of
a tree are asked for. A SUB that asks each of them for all that is lacking may bring many times as much
(overload). A SUB that asks each for a share may leave publications of one branch unused where another branch
has none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from router.registry import Registry

#: Takes the number of publications that are lacking, and interfaces, at least one of each. Returns how many
#: the SUB asks for, at least 1, -> the interfaces through which it does.
FanOut = Callable[[int, frozenset[int]], Mapping[int, frozenset[int]]]

FAN_OUTS: Registry[FanOut] = Registry("fan-out")


def _whole(lacking: int, interfaces: frozenset[int]) -> Mapping[int, frozenset[int]]:
    return {lacking: interfaces}


def _divided(lacking: int, interfaces: frozenset[int]) -> Mapping[int, frozenset[int]]:
    share, more = divmod(lacking, len(interfaces))
    ordered = sorted(interfaces)
    shares = {share + 1: frozenset(ordered[:more]), share: frozenset(ordered[more:])}
    return {asked: through for asked, through in shares.items() if asked and through}


FAN_OUTS.register("whole", _whole, "All that is lacking, of every child.")
FAN_OUTS.register("divided", _divided, "An equal share of it, of every child.")
