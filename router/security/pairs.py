"""Keys of pairs of neighbours, derived from the network keys of a ring (RFC 5869)."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from router.privacy.keys import KeyFile, KeyFileError, KeyRing, read_keys

_LABEL = b"cbcb hop 1"
_KEY_BYTES = 32
#: Keys that are kept: as many as a router may have neighbours, and no more for senders that are none.
_KEPT = 8_192
#: Seconds between two looks at a key file.
_LOOK_S = 1.0


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

    def refresh(self) -> None:
        """Called before each frame that is tagged or verified; the keys may change with it alone."""

    def pair(self, key_id: int, other: bytes) -> bytes | None:
        """The key shared with the owner of another source address; None: no network key has the number.

        Both directions have the same key; tags cover the source address.
        """
        return self._derived(key_id, other) if key_id in self._secrets else None

    def _derive(self, key_id: int, other: bytes) -> bytes:
        low, high = sorted((self._own, other))
        derivation = HKDF(SHA256(), _KEY_BYTES, salt=None, info=_LABEL + low + high)
        return bytes(derivation.derive(self._secrets[key_id]))


class PairKeyFile(PairKeys):
    """The keys of pairs from a key file, which is read again, once a second at most, when it has changed.

    A rotation (`cbcb keys rotate`) replaces the file as a whole. While the file cannot be used, the keys stay
    as they are.

    Args:
        path: the key file.
        own: as `PairKeys`.
        now: seconds on a clock that never goes back.

    Raises:
        KeyFileError: the file cannot be used.
    """

    def __init__(self, path: Path, own: bytes, now: Callable[[], float] = time.monotonic) -> None:
        self._file = KeyFile(path)
        self._now = now
        self._look_at = now() + _LOOK_S
        super().__init__(read_keys(path), own)

    def refresh(self) -> None:
        """Reads the file again if it is time to look, and it is another than before."""
        now = self._now()
        if now < self._look_at:
            return
        self._look_at = now + _LOOK_S
        with suppress(KeyFileError):
            renewed = self._file.renewed()
            if renewed is not None:
                super().__init__(renewed, self._own)
