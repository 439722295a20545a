"""The routing schemes that tests are parametrised over."""

from __future__ import annotations

from router.protocol.options import SCHEMES

#: Schemes that deliver exactly on every graph. The paper's rules lose receivers on graphs with cycles.
EXACT_SCHEMES = tuple(name for name in SCHEMES if name != "pif-strict")
