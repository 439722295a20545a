"""Frames of others that carry a signature: whether a router takes them.

An RA, an SR and a UR are verified when they come in, a message when it is delivered to applications, TABLE
and COMMIT when they come from the controller, HELLO and ACK by the controller. Numbers of an issuer that came
before are refused, by the type of the frame: only what its signature stands for moves a window, so nobody can
push that of another. A restart begins with empty windows: it is given tables of a new epoch, and a signature
covers the epoch. Epochs of another run have the same numbers: what issuers sent in earlier runs is below the
floor of the verifier.
"""

from __future__ import annotations

from typing import Protocol

from router.protocol.counters import Drop
from router.wire.authentication import advanced
from router.wire.format import NUMBERED, SIGNED_TYPES, FrameType
from router.wire.frames import Frame

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
        """Whether the signature of a frame is that of a node, or of `addresses.CONTROLLER`."""


class Signatures:
    """The frames of others that one router has verified.

    Args:
        verifier: has the public keys of all. None: signatures are not asked for.
    """

    def __init__(self, verifier: Verifier | None) -> None:
        self._verifier = verifier
        #: Issuer and type -> greatest number, bits (`router.wire.authentication`).
        self._windows: dict[tuple[int, FrameType], tuple[int, int]] = {}

    def refusal(self, frame: Frame, signer: int) -> Drop | None:
        """Why a frame that has passed all other checks is not taken; None: it is, and not a second time.

        One call verifies one signature at most.

        Args:
            signer: the node that must have signed it, or `addresses.CONTROLLER`.
        """
        if self._verifier is None or frame.type not in SIGNED_TYPES:
            return None
        if not frame.signature:
            return Drop.UNSIGNED
        stream = frame.issuer, frame.type
        window = None
        if frame.type in NUMBERED:
            window = advanced(*self._windows.get(stream, (-1, 0)), frame.seq, ISSUER_WINDOW)
            if window is None or frame.seq <= self._verifier.floor:
                return Drop.ISSUER_REPLAYED
        if not self._verifier.stands(frame, signer):
            return Drop.BAD_SIGNATURE
        if window is not None:
            self._windows[stream] = window
        return None
