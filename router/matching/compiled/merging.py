"""Merging of several segments into one table, without the removed filters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from router.matching.common.segments import Source
from router.matching.compiled.layout import ACCESSES, Part, Test
from router.matching.compiled.normal import NormalTable, Texts, texts_of
from router.matching.compiled.segment import Segment

_Longs = npt.NDArray[np.int64]
_FIRST_STRING_TEST = int(Test.EQUAL)


def merged_table(sources: Sequence[Source[Segment]]) -> NormalTable:
    """Returns the filters of all sources, source by source, in the order of their postings."""
    names: dict[bytes, int] = {}
    strings: dict[bytes, int] = {}
    codes, tests, lows, highs, lengths, satisfiable = [], [], [], [], [], []
    for source in sources:
        segment, living = source.segment, source.living
        starts = segment.record_start.astype(np.int64)
        sizes = starts[living + 1] - starts[living]
        ends = np.cumsum(sizes)
        # The records of the postings that were not removed, in order.
        records = np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(
            starts[living] - (ends - sizes), sizes
        )
        test, high = segment.test[records], segment.b[records]
        named = _numbers(names, segment.names, np.unique(segment.slot_name))
        codes.append(named[segment.slot_name][test // ACCESSES] * 4 + segment.slot_type[test // ACCESSES] - 1)
        textual = test % ACCESSES >= _FIRST_STRING_TEST
        used = np.zeros(len(segment.strings) + 1, np.bool_)
        used[high[textual]] = True
        high[textual] = _numbers(strings, segment.strings, np.flatnonzero(used))[high[textual]]
        tests.append(test % ACCESSES)
        lows.append(segment.a[records])
        highs.append(high)
        lengths.append(sizes)
        satisfiable.append(living < segment.parts[Part.ALWAYS_END])
    code, test = np.concatenate(codes), np.concatenate(tests)
    counts = np.bincount(code, minlength=4 * len(names))
    slots = np.flatnonzero(counts)
    slots = slots[np.argsort(-counts[slots], kind="stable")]
    slot_of = np.full(len(counts), -1, np.int32)
    slot_of[slots] = np.arange(len(slots), dtype=np.int32)
    start = np.concatenate([[0], np.cumsum(np.concatenate(lengths))]).astype(np.int64)
    return NormalTable(
        np.concatenate([source.segment.interface[source.living] for source in sources]),
        start,
        np.concatenate(satisfiable),
        slot_of[code] * np.int32(ACCESSES) + test,
        np.concatenate(lows),
        np.concatenate(highs),
        (slots // 4).astype(np.int32),
        (slots % 4 + 1).astype(np.int32),
        texts_of(list(names)),
        texts_of(list(strings)),
    )


def _numbers(known: dict[bytes, int], texts: Texts, used: npt.NDArray[np.integer]) -> _Longs:
    """Maps text number -> merged text number, for the texts in `used`; -1 for the others."""
    numbers = np.full(len(texts) + 1, -1, np.int64)
    text = texts.text.tobytes()
    bounds = zip(texts.start[used].tolist(), texts.start[used + 1].tolist(), strict=True)
    numbers[used] = [known.setdefault(text[start:end], len(known)) for start, end in bounds]
    return numbers
