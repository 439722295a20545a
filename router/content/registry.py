"""Contents by name: `[protocol] covering` of an experiment.

A new one joins by one line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from router.registry import Registry

if TYPE_CHECKING:
    from router.content.base import Content

CONTENTS: Registry[type[Content]] = Registry("covering")
CONTENTS.register_lazily(
    "full",
    "router.content.plain:Plain",
    "Predicates are simplified, and filters that others cover are dropped.",
)
CONTENTS.register_lazily(
    "none", "router.content.verbatim:Verbatim", "Filters are kept as declared, in tables and advertisements."
)

DEFAULT_CONTENT = "full"

#: Contents by `[privacy] mode` of an experiment; those above without privacy.
PRIVACY_MODES: Registry[type[Content]] = Registry("privacy mode")
OFF = "off"
PRIVACY_MODES.register_lazily(OFF, "router.content.plain:Plain", "Routers read predicates and messages.")
PRIVACY_MODES.register_lazily(
    "bloom",
    "router.content.bloom:Bloom",
    "Predicates and messages are encoded as Bloom sets under a key that routers do not hold.",
)


def content_of(covering: str, privacy: str) -> type[Content]:
    """The content of routers with these options.

    Raises:
        UnknownNameError: no content has the name.
    """
    return CONTENTS[covering] if privacy == OFF else PRIVACY_MODES[privacy]
