"""How the compiled engine makes segments, and the row by which compiled code finds them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from router.matching.common.segments import Source
from router.matching.compiled.matching import TABLE_COUNT, TABLE_SEARCH, TABLE_SEGMENTS, TABLE_STEPS
from router.matching.compiled.merging import merged_table
from router.matching.compiled.normal import NormalTable
from router.matching.compiled.scratch import working_memory
from router.matching.compiled.segment import Segment
from router.native.memory import address_of

#: Steps of a bounded search, of some 10 ns each, and of one without a bound.
MOST_STEPS, UNBOUNDED = 300_000, 2**62


class CompiledLayout:
    """See `router.matching.common.segments.Layout`.

    Args:
        steps: the steps that a search may take.
    """

    def __init__(self, steps: int = UNBOUNDED) -> None:
        self._steps = steps

    def build(self, table: NormalTable) -> Segment:
        """See `Layout`."""
        return Segment(table)

    def merged(self, sources: Sequence[Source[Segment]]) -> NormalTable:
        """See `Layout`."""
        return merged_table(sources)

    def row(self, segments: Sequence[Segment]) -> npt.NDArray[np.int64]:
        """See `Layout`; the working memory fits the segments afterwards."""
        memory = working_memory()
        row = np.empty(TABLE_SEGMENTS + len(segments), np.int64)
        row[TABLE_SEARCH], row[TABLE_STEPS], row[TABLE_COUNT] = memory.address, self._steps, len(segments)
        for number, segment in enumerate(segments):
            row[TABLE_SEGMENTS + number] = address_of(segment.parts)
            memory.fit_segment(segment.slots, segment.groups)
        return row
