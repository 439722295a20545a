"""The layers of a router, made by one function: the live process, simulations and replays have the same.

From the codec inwards: `reliable_control` (an option), the protocol core. A recording has what goes into the
outermost layer and what comes out of it.
"""

from __future__ import annotations

import random

from router.matching.common.interface import Matcher
from router.protocol.core.reliable_control import ReliableControl
from router.protocol.core.router import Layer, Router
from router.protocol.options import RouterOptions
from router.protocol.signatures import Verifier


def make_router(
    node: int,
    options: RouterOptions,
    matcher: Matcher | None,
    incarnation: int,
    rng: random.Random | None = None,
    verifier: Verifier | None = None,
) -> Layer:
    """A router within the layers that its options ask for; arguments and errors as of `Router`."""
    router = Router(node, options, matcher, incarnation, rng, verifier)
    return ReliableControl(router) if options.reliable_control else router
