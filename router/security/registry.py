"""The modes of authentication by name: `[security] mode` of an experiment.

A new one joins by one line.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from router.registry import Registry

if TYPE_CHECKING:  # it comes with cryptography
    from router.security.guard import Guard

#: Makes the guard of a sender from its Ethernet source address, the file of network keys, the incarnation,
#: the file of its replay windows, and the folder of signing keys (`router.security.guard.make_guard`); None:
#: there is none.
GuardMaker = Callable[[bytes, Path, int, Path | None, Path | None], "Guard | None"]

OFF = "off"
#: The mode in which issuers sign; the others have no signing keys.
SIGNED = "signed"
SECURITY_MODES: Registry[GuardMaker] = Registry("security mode")
SECURITY_MODES.register(OFF, lambda *_: None, "Frames are taken as they come.")
SECURITY_MODES.register_lazily(
    "mac",
    "router.security.guard:make_guard",
    "Every frame has a tag of the pair of neighbours for each hop; frames without are dropped.",
)
SECURITY_MODES.register_lazily(
    SIGNED,
    "router.security.guard:make_guard",
    "As `mac`; and what a node issues has its signature, which holds a rogue router to its own name.",
)
