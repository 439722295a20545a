"""The forwarding function: (B(source, incoming interface) with I0) intersected with F_C(m).

Protocol paper, section 3.3. Per-interface forwarding is one scheme; another would replace this module.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from router.predicates.model import Message
from router.protocol.broadcast import Branch
from router.protocol.routing import RoutingTable
from router.wire.addresses import LOCAL_INTERFACE
from router.wire.frames import EncodedMessage

_LOCAL = frozenset({LOCAL_INTERFACE})


@dataclass(frozen=True, slots=True)
class Outputs:
    """Where a message goes on to: link interfaces, and whether p0 selects it."""

    interfaces: frozenset[int]
    local: bool


class Forwarding:
    def __init__(self, routing: RoutingTable) -> None:
        self._routing = routing

    def outputs(self, branch: Branch, message: Message | EncodedMessage) -> Outputs:
        """Where a message goes that came in on `branch.parent`, from the root of the branch's tree.

        Raises:
            DecodeError: it breaks a rule of the format.
        """
        return _outputs(self._routing.match(message, among=_with_local(branch.children)))


# A router has few sets of interfaces, and many messages.


@lru_cache(maxsize=4096)
def _with_local(children: frozenset[int]) -> frozenset[int]:
    return children | _LOCAL


@lru_cache(maxsize=4096)
def _outputs(matched: frozenset[int]) -> Outputs:
    return Outputs(matched - _LOCAL, LOCAL_INTERFACE in matched)
