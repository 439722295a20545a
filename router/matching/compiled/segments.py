"""The memory of searches of the compiled engine, and the merging of segments."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

from router.matching.compiled import (
    ACCESSES,
    ATTRIBUTE_WIDTH,
    HITS,
    SEED_AT,
    STRING_HASH,
    Part,
    Search,
    Test,
    kernel,
    mixed,
    powers_of_base,
)
from router.matching.compiled.normal import NormalTable, Texts, slots_of
from router.matching.compiled.segment import Segment
from router.native import I64, Address, address_of

_Ints = npt.NDArray[np.int32]
_Longs = npt.NDArray[np.int64]
#: Bytes of the smallest ATTRIBUTE: TLV header, length of the name, name, type, empty value.
_LEAST_ATTRIBUTE = 8
#: Messages of this many bytes always fit.
_USUAL_BODY = 9_000
#: Memory for messages of more bytes is released after use.
_KEPT_BODY = 1_000_000


class WorkingMemory:
    """Arrays of a search in compiled code, which grow with the largest table and the longest message.

    Matching is not reentrant: a process matches in one thread, and all tables share the arrays.

    Attributes:
        row: int64 [Search.SIZE], the row of the search, which refers to the arrays.
        address: the address of `row`.
        found: int32, the dense numbers that the last search has found.
        body: the length in bytes of the longest message that fits.
    """

    def __init__(self) -> None:
        self.row: _Longs = np.zeros(Search.SIZE, np.int64)
        self.address = address_of(self.row)
        self._arrays: dict[int, npt.NDArray[np.generic]] = {}
        self.found: _Ints = np.empty(0, np.int32)
        self.row[Search.SEED] = SEED_AT
        self._put(Search.HITS, np.empty((HITS, 2), np.int64))
        self._put(Search.POWERS, powers_of_base())
        self.fit_interfaces(64)
        self.fit_body(_USUAL_BODY)
        for which in (Search.ATTRIBUTE_OF, Search.SEEN):
            self._put(which, np.zeros(128, np.int64))

    def fit_interfaces(self, interfaces: int) -> None:
        """Allocates memory for answers of this many interfaces."""
        if interfaces > len(self.found):
            self.found = np.empty(2 * interfaces, np.int32)
            self._put(Search.FOUND, self.found)

    def fit_body(self, size: int) -> None:
        """Allocates memory for messages of `size` bytes."""
        self.body = size
        self._put(Search.POLYNOMIALS, np.empty(size + 1, np.int64))
        self._put(Search.ROWS, np.empty((size // _LEAST_ATTRIBUTE + 1, ATTRIBUTE_WIDTH), np.int64))

    def shrink(self) -> None:
        """Releases memory that was allocated for an unusually long message."""
        if self.body > _KEPT_BODY:
            self.fit_body(_USUAL_BODY)

    def fit_segment(self, slots: int, groups: int) -> None:
        """Allocates memory for segments of this many slots and groups."""
        for which, size in ((Search.ATTRIBUTE_OF, slots), (Search.SEEN, groups)):
            if size > len(self._arrays[which]):
                self._put(which, np.zeros(2 * size, np.int64))

    def _put(self, which: int, array: npt.NDArray[np.generic]) -> None:
        self._arrays[which] = array
        self.row[which] = address_of(array)


@cache
def working_memory() -> WorkingMemory:
    """Returns the working memory of the process."""
    return WorkingMemory()


_FIRST_STRING_TEST = int(Test.EQUAL)


def merged_table(sources: Sequence[tuple[Segment, _Longs]]) -> NormalTable:
    """Returns the filters of some postings (ascending) of each segment, one after the other."""
    records, lengths, used_names, used_strings = [], [], [], []
    for segment, living in sources:
        starts = segment.record_start.astype(np.int64)
        sizes = starts[living + 1] - starts[living]
        ends = np.cumsum(sizes)
        # The records of the postings, in order.
        own = np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(starts[living] - (ends - sizes), sizes)
        textual = segment.test[own] % ACCESSES >= _FIRST_STRING_TEST
        used = np.zeros(len(segment.strings), np.bool_)
        used[segment.b[own[textual]]] = True
        records.append(own)
        lengths.append(sizes)
        used_names.append(np.unique(segment.slot_name).astype(np.int64))
        used_strings.append(np.flatnonzero(used))
    names, name_numbers = united([segment.names for segment, _ in sources], used_names)
    strings, string_numbers = united([segment.strings for segment, _ in sources], used_strings)
    codes, tests, highs = [], [], []
    for (segment, _), own, named, numbered in zip(
        sources, records, name_numbers, string_numbers, strict=True
    ):
        test, high = segment.test[own], segment.b[own]
        codes.append(named[segment.slot_name][test // ACCESSES] * 4 + segment.slot_type[test // ACCESSES] - 1)
        textual = test % ACCESSES >= _FIRST_STRING_TEST
        high[textual] = numbered[high[textual]]
        tests.append(test % ACCESSES)
        highs.append(high)
    code = np.concatenate(codes)
    slot_of, slot_name, slot_type = slots_of(code, len(names))
    return NormalTable(
        np.concatenate([segment.interface[living] for segment, living in sources]),
        np.concatenate([[0], np.cumsum(np.concatenate(lengths))]).astype(np.int64),
        np.concatenate([living < segment.parts[Part.ALWAYS_END] for segment, living in sources]),
        slot_of[code] * np.int32(ACCESSES) + np.concatenate(tests),
        np.concatenate([segment.a[own] for (segment, _), own in zip(sources, records, strict=True)]),
        np.concatenate(highs),
        slot_name,
        slot_type,
        names,
        strings,
    )


def united(texts: Sequence[Texts], used: Sequence[_Longs]) -> tuple[Texts, list[_Longs]]:
    """Returns some of several texts, each once, in the order of their first occurrence.

    Args:
        texts: of the sources.
        used: the numbers of the texts to keep, of each source, ascending.

    Returns:
        The texts, and for each source: number of a text -> its number among them (-1: not kept).

    Raises:
        ValueError: the texts have 2 GiB or more in all.
    """
    offsets = np.cumsum([0, *(len(each.text) for each in texts)])
    pairs = list(zip(texts, used, offsets[:-1], strict=True))
    start = np.concatenate([each.start[kept] + offset for each, kept, offset in pairs])
    end = np.concatenate([each.start[kept + 1] + offset for each, kept, offset in pairs])
    size = int((end - start).sum())
    if size >= 2**31:
        raise ValueError(f"strings of {size} bytes in one table; at most {2**31 - 1}")
    numbers = np.empty(len(start), np.int64)
    polynomials = np.concatenate([each.polynomial[kept] for each, kept, _ in pairs])
    starts, text = np.zeros(len(start) + 1, np.int32), np.empty(size, np.uint8)
    joined = np.concatenate([each.text for each in texts])
    count = _unite(start, end, joined, polynomials, numbers, starts, text, SEED_AT)
    found, at = [], 0
    for each, kept, _ in pairs:
        own = np.full(len(each), -1, np.int64)
        own[kept] = numbers[at : at + len(kept)]
        found.append(own)
        at += len(kept)
    united = text if starts[count] == size else text[: starts[count]].copy()
    # Of the type of `texts_of`: compiled code is then compiled once.
    united.flags.writeable = False
    return Texts(starts[: count + 1].copy(), united, polynomials[:count].copy()), found


@kernel
def _unite(
    start: _Longs,
    end: _Longs,
    text: npt.NDArray[np.uint8],
    polynomials: _Longs,
    numbers: _Longs,
    united_start: _Ints,
    united: npt.NDArray[np.uint8],
    seed: Address,
) -> I64:
    """Numbers texts, equal ones alike, and copies each once; returns the number of different texts.

    Args:
        polynomials: of each text; those of the copies come first afterwards.
    """
    size = 1
    while size < 2 * len(start):
        size *= 2
    table = np.full(size, -1, np.int64)
    count = 0
    for item in range(len(start)):
        begin, length = start[item], end[item] - start[item]
        at = mixed(polynomials[item], length, STRING_HASH, seed) & (size - 1)
        while True:
            known = table[at]
            if known < 0:
                to = united_start[count]
                united[to : to + length] = text[begin : begin + length]
                table[at] = numbers[item] = count
                polynomials[count] = polynomials[item]
                count += 1
                united_start[count] = to + length
                break
            first = united_start[known]
            same = united_start[known + 1] - first == length
            place = 0
            while same and place < length:
                same = united[first + place] == text[begin + place]
                place += 1
            if same:
                numbers[item] = known
                break
            at = (at + 1) & (size - 1)
    return count
