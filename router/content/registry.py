"""Contents by name: `[protocol] covering` of an experiment. A new one joins by one line."""

from __future__ import annotations

from router.content.base import Content
from router.registry import Registry

CONTENTS: Registry[type[Content]] = Registry(
    "covering",
    {"full": "router.content.plain:Plain", "none": "router.content.verbatim:Verbatim"},
)
DEFAULT_CONTENT = "full"
