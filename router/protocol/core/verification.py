"""The layer that verifies signatures of issuers (`router.protocol.signatures`); the core does not know of it.

A frame is first checked against the reverse path (`Router.admits`); only then does it cost a verification,
and use up a number. A message is verified by the routers that deliver it, not by those that pass it on.
"""

from __future__ import annotations

from router.protocol.core.router import Layer
from router.protocol.events import Action, ControllerFrame, Deliver, DeliveryRefused, Event, FrameReceived
from router.protocol.signatures import Signatures, Verifier
from router.wire.addresses import CONTROLLER
from router.wire.format import MESSAGES, REPLIES
from router.wire.frames import Frame


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
        """See `Router`."""
        return self._below.idle

    def next_deadline(self) -> float | None:
        """See `Router`."""
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
