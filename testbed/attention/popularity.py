"""Events of the workload: popularity, volume and the routers that host their subscribers (section 5.1)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random

from topos.model import Topology


def popularities(events: int, exponent: float) -> list[float]:
    """Returns p_i = i^-exponent / Z for i = 1 to `events`, where Z makes the sum 1.

    The paper samples p_i from a power law; v_i = P p_i then adds up to P only if the sum is 1.
    """
    weights = [number**-exponent for number in range(1, events + 1)]
    whole = math.fsum(weights)
    return [weight / whole for weight in weights]


def volumes(shares: Sequence[float], total: int) -> list[int]:
    """Returns v_i = total * p_i as integers that add up to `total` (the largest remainders round up)."""
    exact = [total * share for share in shares]
    whole = [math.floor(each) for each in exact]
    order = sorted(range(len(exact)), key=lambda i: (whole[i] - exact[i], i))
    for i in order[: total - sum(whole)]:
        whole[i] += 1
    return whole


def hosts_of(shares: Sequence[float], topology: Topology, random: Random) -> list[tuple[int, ...]]:
    """Draws the hosting routers of every event: ceil(p_i N), a random root and the routers closest to it.

    Closest by hops; routers at equal distance are drawn at random.
    """
    count = len(topology.nodes)
    neighbours: list[list[int]] = [[] for _ in range(count)]
    for link in topology.links:
        neighbours[link.u].append(link.v)
        neighbours[link.v].append(link.u)
    found = []
    for share in shares:
        root = random.randrange(count)
        # The product of a rounded quotient must not exceed a whole number by an error of rounding.
        wanted = min(count, max(1, math.ceil(share * count - 1e-9)))
        hosts = [root]
        reached, shell = {root}, [root]
        while len(hosts) < wanted and shell:
            following = sorted({node for each in shell for node in neighbours[each]} - reached)
            random.shuffle(following)
            reached.update(following)
            hosts += following[: wanted - len(hosts)]
            shell = following
        found.append(tuple(hosts))
    return found
