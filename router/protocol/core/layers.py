"""The layers around the core of a router, of which the core does not know.

Live processes, simulations and replays have the same layers, from the codec inwards: control frames that
neighbours confirm (`reliable_control`, an option), signatures (where issuers sign), the core. A recording has
what goes into the outermost layer and what comes out of it.

**Signatures.** "Mode signed" in docs/explanation/security.md says who verifies what. A frame is first checked
against the reverse path (`Router.admits`); only then does it cost a verification, and use up a number. Epochs
of another run have the same numbers: what issuers sent in earlier runs is below the floor of the verifier.
"""

from __future__ import annotations

import random
from typing import Protocol

from router.matching.engines import Matcher
from router.protocol.core.reliable_control import ReliableControl
from router.protocol.core.router import Layer, Router
from router.protocol.counters import Drop
from router.protocol.events import Action, ControllerFrame, Deliver, DeliveryRefused, Event, FrameReceived
from router.protocol.options import RouterOptions
from router.wire.authentication import advanced
from router.wire.format import MESSAGES, NUMBERED, REPLIES, SIGNED_TYPES, FrameType
from router.wire.frames import Frame
from router.wire.header import CONTROLLER

#: Numbers of an issuer that are remembered for each type. A router repeats an RA for up to 28 s
#: (`router.protocol.core.reliable_control`), and one that was stopped sends on what waited: as many newer
#: frames of its issuer may come before. Of an issuer that has sent few frames, few bytes are kept; 8 KiB at
#: most.
ISSUER_WINDOW = 65_536


class Verifier(Protocol):
    """Verifies signatures: `router.security.signatures.PublicKeys`.

    Attributes:
        floor: numbers of issuers up to this one are of earlier runs under the same keys.
    """

    floor: int

    def stands(self, frame: Frame, signer: int) -> bool:
        """Whether the signature of a frame is that of a node, or of `header.CONTROLLER`."""


class Signatures:
    """The frames of others that one router has verified.

    Args:
        verifier: has the public keys of all.
    """

    def __init__(self, verifier: Verifier) -> None:
        self.verifier = verifier
        #: Issuer and type -> greatest number, bits (`router.wire.authentication`).
        self._windows: dict[tuple[int, FrameType], tuple[int, int]] = {}

    def refusal(self, frame: Frame, signer: int) -> Drop | None:
        """Why a frame that has passed all other checks is not taken; None: it is, and not a second time.

        One call verifies one signature at most.

        Args:
            signer: the node that must have signed it, or `header.CONTROLLER`.
        """
        if frame.type not in SIGNED_TYPES:
            return None
        if not frame.signature:
            return Drop.UNSIGNED
        stream = frame.issuer, frame.type
        window = None
        if frame.type in NUMBERED:
            window = advanced(*self._windows.get(stream, (-1, 0)), frame.seq, ISSUER_WINDOW)
            if window is None or frame.seq <= self.verifier.floor:
                return Drop.ISSUER_REPLAYED
        if not self.verifier.stands(frame, signer):
            return Drop.BAD_SIGNATURE
        if window is not None:
            self._windows[stream] = window
        return None


class Verification:
    """Passes on the frames whose signature stands, and drops the others.

    Args:
        below: the router, or a layer around it.
        verifier: has the public keys of all nodes and of the controller.
    """

    def __init__(self, below: Layer, verifier: Verifier) -> None:
        self._below = below
        self._signatures = Signatures(verifier)
        self.core = below.core

    @property
    def idle(self) -> bool:
        return self._below.idle

    def next_deadline(self) -> float | None:
        return self._below.next_deadline()

    def handle(self, event: Event, now: float) -> list[Action]:
        """See `Router`; verifies one signature at most."""
        if isinstance(event, ControllerFrame):
            if self._refuses(event.frame, CONTROLLER, CONTROLLER):
                return []
        elif isinstance(event, FrameReceived):
            frame, sender = event.frame, event.sender
            if frame.type in MESSAGES:
                return self._message_received(event, now)
            signer = sender if frame.type in REPLIES else frame.issuer
            # The core drops and counts a frame that it does not admit.
            if self.core.admits(sender, frame) and self._refuses(frame, sender, signer):
                return []
        return self._below.handle(event, now)

    def _message_received(self, event: FrameReceived, now: float) -> list[Action]:
        """Lets the core handle a message, and takes the delivery of a forged message back."""
        actions, frame = self._below.handle(event, now), event.frame
        place = next((place for place, each in enumerate(actions) if isinstance(each, Deliver)), None)
        if place is None or not self._refuses(frame, event.sender, frame.issuer):
            return actions
        del actions[place]
        self._below.handle(DeliveryRefused(frame.issuer, frame.seq, forwarded=bool(actions)), now)
        return actions

    def _refuses(self, frame: Frame, sender: int, signer: int) -> bool:
        """Whether a frame is refused for its signature; counts it, by the neighbour that it came from."""
        reason = self._signatures.refusal(frame, signer)
        if reason is None:
            return False
        self.core.counters.drop(reason)
        name = "controller" if sender == CONTROLLER else str(sender)
        self.core.counters.refused[name, reason.value] += 1
        return True


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
