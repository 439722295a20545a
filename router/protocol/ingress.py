"""The interface of a scheme's RA ingress filter (section 3.5.1)."""

from __future__ import annotations

from typing import Protocol

from router.predicates.model import Predicate
from router.protocol.broadcast import Branch
from router.protocol.reply_rules import Report


class IngressFilter(Protocol):
    """Decides about an RA, and updates the routing table with it."""

    def accept(self, epoch: int, branch: Branch, predicate: Predicate, hops: int) -> bool:
        """Takes an RA that came in on `branch.parent` in `epoch`.

        Args:
            hops: how many hops below this router it may still go; never more than the subtree can be deep.

        Returns:
            False if the RA is covered and must go no further.
        """

    def restrict_to(self, epoch: int, interface: int, report: Report) -> None:
        """A UR to another router, about trees of `epoch`, says what is behind `interface`.

        Args:
            report: is not changed.
        """

    def retire(self, epochs: frozenset[int]) -> None:
        """Only these epochs are still in use."""
