"""Pure broadcast, the baseline of content-based routing: `[routing] scheme = "flooding"`.

Every message crosses every edge of its source's tree; p0 alone decides about delivery. No predicate leaves
its node: there are no RAs, SRs and URs, and no table beside p0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from router.protocol.broadcast import Branch, EpochTable
from router.protocol.scheme import Outputs, Row, Scheme, rows_by_interface
from router.wire.frames import Frame
from router.wire.header import LOCAL_INTERFACE

_LOCAL = frozenset({LOCAL_INTERFACE})


class Flooding(Scheme):
    """A message goes to B(source, incoming interface)."""

    @classmethod
    def conflicts(cls, sr_policy: str, max_filters: int | None) -> Mapping[str, str]:
        found = {}
        if sr_policy != "never":
            found["sr_policy"] = (
                f'"{sr_policy}" is of no use with the scheme "flooding", which has no sender requests; '
                'expected "never"'
            )
        if max_filters is not None:
            found["max_filters"] = 'excludes the scheme "flooding", which has no tables to over-simplify'
        return found

    def outputs(self, branch: Branch, frame: Frame) -> Outputs:
        body = self.context.content.message_in(frame)
        return Outputs(branch.children, bool(self.routing.match(body, among=_LOCAL)))

    def deciding_entries(self, table: EpochTable, branch: Branch) -> Sequence[tuple[int, int | None]] | None:  # noqa: ARG002
        return [(child, None) for child in sorted(branch.children)]

    def rows(self) -> Iterable[Row]:
        return rows_by_interface(self.routing)
