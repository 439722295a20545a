"""Per-interface forwarding to the letter of the protocol paper: `[routing] scheme = "pif-strict"`.

Sections 3.5.1 to 3.5.3 lose receivers on graphs with cycles, when a predicate is widened after it was
trimmed, and when a UR is partial or overtakes an RA (docs/adr/0002 and 0003).
"""

from __future__ import annotations

from collections.abc import Mapping

from router.predicates.model import Predicate
from router.protocol.broadcast import Branch
from router.protocol.ingress import IngressFilter
from router.protocol.reply_rules import ReplyRules, Report
from router.protocol.routing import RoutingTable
from router.protocol.schemes.per_interface import PerInterface


class PerInterfaceStrict(PerInterface):
    """Per-interface forwarding with the ingress filter and the treatment of URs of the paper."""

    @classmethod
    def conflicts(cls, sr_policy: str, max_filters: int | None) -> Mapping[str, str]:  # noqa: ARG003
        # An over-simplified p_i covers RAs that the routers beyond never got; the filter would drop them.
        if max_filters is None:
            return {}
        return {"max_filters": 'excludes the scheme "pif-strict", which would lose receivers by it'}

    def ingress_filter(self) -> IngressFilter:
        return CoveringFilter(self.routing)

    def reply_rules(self) -> ReplyRules:
        return StrictReplyRules(self.context, self.routing)


class CoveringFilter:
    """Section 3.5.1 to the letter: an RA is dropped when p_i covers it."""

    def __init__(self, routing: RoutingTable) -> None:
        self._routing = routing

    def accept(self, epoch: int, branch: Branch, predicate: Predicate, hops: int) -> bool:  # noqa: ARG002
        return self._routing.widen(branch.parent, predicate)

    def restrict_to(self, epoch: int, interface: int, report: Report) -> None:
        """p_i says nothing of what others know."""

    def retire(self, epochs: frozenset[int]) -> None:
        """p_i belongs to no epoch."""


class StrictReplyRules(ReplyRules):
    """Sections 3.5.2 and 3.5.3 to the letter: p_i is replaced by the UR alone, PARTIAL or not."""

    def with_advertised(self, report: Report, ras_since_request: Report) -> Report:  # noqa: ARG002
        return report

    def widens(self, partial: bool) -> bool:  # noqa: ARG002
        return False
