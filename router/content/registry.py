"""Contents by name: `[protocol] covering` of an experiment.

A new one joins by one line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

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

#: `[privacy] mode` of an experiment.
PrivacyMode = Literal["off", "bloom"]
BLOOM: PrivacyMode = "bloom"


def content_of(covering: str, privacy: PrivacyMode) -> type[Content]:
    """The content of routers with these options.

    Raises:
        UnknownNameError: no content has the name of the covering.
    """
    if privacy == "off":
        return CONTENTS[covering]
    from router.content.bloom import Bloom

    return Bloom
