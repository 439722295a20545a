"""Keys of pairs of neighbours, derived from the network keys of a ring (RFC 5869)."""

from __future__ import annotations

from functools import lru_cache

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from router.privacy.keys import KeyRing

_LABEL = b"cbcb hop 1"
_KEY_BYTES = 32
#: Keys that are kept: as many as a router may have neighbours, and no more for senders that are none.
_KEPT = 8_192


class PairKeys:
    """The keys that one router, or the controller, shares with each other.

    Args:
        ring: the network keys.
        own: its Ethernet source address.

    Attributes:
        sending: number of the network key under which frames are sent.
    """

    def __init__(self, ring: KeyRing, own: bytes) -> None:
        self.sending = ring.sending
        self._secrets = {key.key_id: key.secret for key in ring.keys}
        self._own = own
        self._derived = lru_cache(_KEPT)(self._derive)

    def pair(self, key_id: int, other: bytes) -> bytes | None:
        """The key shared with the owner of another source address; None: no network key has the number.

        Both directions have the same key; tags cover the source address.
        """
        return self._derived(key_id, other) if key_id in self._secrets else None

    def _derive(self, key_id: int, other: bytes) -> bytes:
        low, high = sorted((self._own, other))
        derivation = HKDF(SHA256(), _KEY_BYTES, salt=None, info=_LABEL + low + high)
        return bytes(derivation.derive(self._secrets[key_id]))
