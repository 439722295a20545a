"""The layers of a router, made by one function: the live process, simulations and replays have the same.

From the codec inwards: control frames that neighbours confirm (an option), signatures (where issuers sign),
the protocol core. A recording has what goes into the outermost layer and what comes out of it.
"""

from __future__ import annotations

import random

from router.matching.common.interface import Matcher
from router.protocol.core.reliable_control import ReliableControl
from router.protocol.core.router import Layer, Router
from router.protocol.core.verification import Verification
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
    """A router within the layers that its options ask for.

    Args:
        verifier: verifies the signatures of other senders; None: frames need none.

    Other arguments and errors are those of `Router`.
    """
    router: Layer = Router(node, options, matcher, incarnation, rng)
    if verifier is not None:
        router = Verification(router, verifier)
    return ReliableControl(router) if options.reliable_control else router
