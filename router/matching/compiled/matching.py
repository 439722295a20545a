"""One message against a table of segments: a single call into compiled code.

In each segment, what its units match is found first: they need no verification, and an interface that has
matched is not looked at again. Then the other filters whose access constraint is satisfied are verified.
"""

# ruff: noqa: ANN001, ANN202
from __future__ import annotations

import numpy as np

from router.matching.compiled.attributes import (
    AT,
    HASH,
    KEY,
    LENGTH,
    NAME_AT,
    NAME_LENGTH,
    NAMED,
    SLOT,
    TEXT,
    TYPE,
    read_attributes,
)
from router.matching.compiled.compiler import inlined, kernel
from router.matching.compiled.hashing import mixed
from router.matching.compiled.layout import (
    ACCESSES,
    BLOCK,
    GROUP_END,
    GROUP_KEY,
    GROUP_OTHERS,
    GROUP_UNITS,
    SLOT_EQUAL,
    SLOT_LENGTHS,
    SLOT_LISTS,
    SLOT_NAME,
    SLOT_NAME_LENGTH,
    SLOT_TYPE,
    STRING,
    Access,
    Part,
)
from router.matching.compiled.memory import bytes_at, ints_at, longs_at
from router.matching.compiled.verifying import same_bytes, take, verify
from router.matching.compiled.views import (
    AnswerView,
    Scratch,
    attribute_rows,
    message_view,
    scratch_row,
    segment_view,
)

_EQUAL, _PREFIX, _SUFFIX, _SUBSTRING = (int(Access[n]) for n in ("EQUAL", "PREFIX", "SUFFIX", "SUBSTRING"))
_UNITS, _OTHERS = int(Access.PRESENT_UNIT), int(Access.PRESENT)
_ALWAYS_START, _ALWAYS_END = int(Part.ALWAYS_START), int(Part.ALWAYS_END)
_PARTS, _FOUND, _FOUND_SIZE = int(Part.SIZE), int(Scratch.FOUND), int(Scratch.FOUND_SIZE)
_HITS, _HITS_SIZE = int(Scratch.HITS), int(Scratch.HITS_SIZE)


@kernel
def match(body, table, open_interfaces, wanted, trusted):  # type: ignore[no-untyped-def]
    """Writes the interfaces that match to the scratch memory, as dense numbers.

    Args:
        body: bytes of a MSG's body.
        table: address of a row of int64: address of the scratch row, dense numbers of interfaces in use, number
            of segments, and the address of each one's parts.
        open_interfaces: address of uint8 [interfaces]: 1 for each interface that is asked for; [0] is 0.
        wanted: how many are asked for: when as many have matched, it ends.
        trusted: see `read_attributes`.

    Returns:
        How many match, or what `read_attributes` returns in place of a number.
    """
    data = np.frombuffer(body, np.uint8)
    head = longs_at(table, 3)
    scratch = scratch_row(head[0])
    rows, polynomials = attribute_rows(scratch)
    count = read_attributes(data, rows, polynomials, trusted)
    if count < 0:
        return count
    found = ints_at(scratch[_FOUND], scratch[_FOUND_SIZE])
    answer = AnswerView(bytes_at(open_interfaces, head[1]), found, wanted)
    hits = ints_at(scratch[_HITS], scratch[_HITS_SIZE] * 2).reshape((scratch[_HITS_SIZE], 2))
    segments = longs_at(table, 3 + head[2])
    number = np.int64(0)
    for segment in range(head[2]):
        if number >= wanted:
            break
        parts = longs_at(segments[3 + segment], _PARTS)
        view = segment_view(segments[3 + segment])
        message = message_view(data, rows, count, polynomials, scratch)
        number = take(answer, view, parts[_ALWAYS_START], parts[_ALWAYS_END], number)
        have = _find_attributes(message, view)
        if have:
            number = _match_segment(message, view, answer, hits, have, number)
            for attribute in range(count):
                if rows[attribute, SLOT] >= 0:
                    message.attribute_of[rows[attribute, SLOT]] = -1
    for at in range(number):
        answer.open[found[at]] = 1
    return number


@inlined
def _match_segment(message, view, answer, hits, have, number):  # type: ignore[no-untyped-def]
    """Adds what one segment matches to `answer`; returns the number found up to now."""
    rows = message.rows
    for attribute in range(message.count):
        if rows[attribute, SLOT] >= 0:
            number = _listed(message, attribute, view, answer, have, number, _UNITS)
    if number >= answer.wanted:
        return number
    hit = np.int64(0)
    for attribute in range(message.count):
        slot = rows[attribute, SLOT]
        if slot < 0:
            continue
        if view.slot_rows[slot, SLOT_EQUAL]:
            value = rows[attribute, KEY]
            if rows[attribute, TYPE] == STRING:
                value = rows[attribute, TEXT]
            code = slot * ACCESSES + _EQUAL
            group = _find_group(message, view, mixed(value, 0, code), code, value, 0, 0)
            number, hit = _hit(message, view, answer, hits, have, group, number, hit)
            if number >= answer.wanted:
                return number
        if rows[attribute, TYPE] == STRING:
            number, hit = _patterns(message, attribute, view, answer, hits, have, number, hit)
            if number >= answer.wanted:
                return number
    for at in range(hit):
        number = verify(message, view, answer, have, hits[at, 0], hits[at, 1], number)
        if number >= answer.wanted:
            return number
    for attribute in range(message.count):
        if rows[attribute, SLOT] >= 0:
            number = _listed(message, attribute, view, answer, have, number, _OTHERS)
            if number >= answer.wanted:
                break
    return number


@inlined
def _find_attributes(message, view):  # type: ignore[no-untyped-def]
    """Finds slots and strings in a segment; returns a bit for each slot (modulo 64) that the message has."""
    have = np.int64(0)
    for attribute in range(message.count):
        slot = _find_slot(message, attribute, view)
        message.rows[attribute, SLOT] = slot
        if slot >= 0:
            have |= np.int64(1) << (slot & 63)
            message.attribute_of[slot] = attribute
            if message.rows[attribute, TYPE] == STRING:
                message.rows[attribute, TEXT] = _find_string(message, attribute, view)
    return have


@inlined
def _find_slot(message, attribute, view):  # type: ignore[no-untyped-def]
    """The slot of an attribute's name and type in a segment, or -1."""
    row = message.rows[attribute]
    mask = len(view.slot_table) - 1
    at = row[NAMED] & mask
    while view.slot_table[at] >= 0:
        slot = np.int64(view.slot_table[at])
        if (
            view.slot_hash[at] == row[NAMED]
            and view.slot_rows[slot, SLOT_TYPE] == row[TYPE]
            and view.slot_rows[slot, SLOT_NAME_LENGTH] == row[NAME_LENGTH]
            and same_bytes(
                message.data, row[NAME_AT], view.names, view.slot_rows[slot, SLOT_NAME], row[NAME_LENGTH]
            )
        ):
            return slot
        at = (at + 1) & mask
    return np.int64(-1)


@inlined
def _find_string(message, attribute, view):  # type: ignore[no-untyped-def]
    """The number that an attribute's string has in a segment, or -1."""
    row = message.rows[attribute]
    mask = len(view.string_table) - 1
    at = row[HASH] & mask
    while view.string_table[at] >= 0:
        string = np.int64(view.string_table[at])
        if view.string_hash[at] == row[HASH]:
            start = np.int64(view.string_start[string])
            if view.string_start[string + 1] - start == row[LENGTH] and same_bytes(
                message.data, row[AT], view.text, start, row[LENGTH]
            ):
                return string
        at = (at + 1) & mask
    return np.int64(-1)


@inlined
def _find_group(message, view, hashed, code, value, at, length):  # type: ignore[no-untyped-def]
    """The group of an access, by its value or by the bytes of its pattern; or -1."""
    mask = len(view.group_table) - 1
    place = hashed & mask
    while view.group_table[place] >= 0:
        group = np.int64(view.group_table[place])
        if view.group_hash[place] == hashed and view.group_rows[group, GROUP_KEY] == code:
            if code % ACCESSES == _EQUAL:
                if view.group_value[group] == value:
                    return group
            else:
                string = view.group_value[group]
                start = np.int64(view.string_start[string])
                if view.string_start[string + 1] - start == length and same_bytes(
                    message.data, at, view.text, start, length
                ):
                    return group
        place = (place + 1) & mask
    return np.int64(-1)


@inlined
def _hit(message, view, answer, hits, have, group, number, hit):  # type: ignore[no-untyped-def]
    """A group's access constraint is satisfied: takes its units, notes what is to be verified."""
    if group < 0:
        return number, hit
    others, end = view.group_rows[group, GROUP_OTHERS], view.group_rows[group, GROUP_END]
    number = take(answer, view, view.group_rows[group, GROUP_UNITS], others, number)
    if others < end:
        if hit < len(hits):
            hits[hit, 0], hits[hit, 1] = others, end
            hit += 1
        elif number < answer.wanted:
            number = verify(message, view, answer, have, others, end, number)
    return number, hit


@inlined
def _pattern(message, view, code, polynomial, at, length):  # type: ignore[no-untyped-def]
    """The group of the pattern that stands at `at` in the body, or -1."""
    hashed = mixed(polynomial, length, code)
    bit = hashed >> 24 & (len(view.bloom) * 64 - 1)
    if view.bloom[bit >> 6] >> (bit & 63) & 1:
        return _find_group(message, view, hashed, code, 0, at, length)
    return np.int64(-1)


@inlined
def _patterns(message, attribute, view, answer, hits, have, number, hit):  # type: ignore[no-untyped-def]
    """The groups of the prefixes, suffixes and substrings of an attribute's string."""
    slot, at, length = message.rows[attribute, SLOT], message.rows[attribute, AT], message.rows[attribute, LENGTH]
    values, powers = message.polynomials, message.powers
    prefixes, suffixes = view.slot_rows[slot, SLOT_LENGTHS], view.slot_rows[slot, SLOT_LENGTHS + 1]
    substrings, end = view.slot_rows[slot, SLOT_LENGTHS + 2], view.slot_rows[slot, SLOT_LENGTHS + 3]
    for which in range(prefixes, suffixes):
        size = np.int64(view.lengths[which])
        if size > length:
            break
        group = _pattern(message, view, slot * ACCESSES + _PREFIX, values[at + size], at, size)
        number, hit = _hit(message, view, answer, hits, have, group, number, hit)
    for which in range(suffixes, substrings):
        size = np.int64(view.lengths[which])
        if size > length:
            break
        first = at + length - size
        polynomial = values[at + length] - values[first] * powers[size]
        group = _pattern(message, view, slot * ACCESSES + _SUFFIX, polynomial, first, size)
        number, hit = _hit(message, view, answer, hits, have, group, number, hit)
    if substrings == end:
        return number, hit
    for first in range(at, at + length):
        byte = np.int64(message.data[first])
        if not view.first_bytes[slot, byte >> 6] >> (byte & 63) & 1:
            continue
        for which in range(substrings, end):
            size = np.int64(view.lengths[which])
            if first + size > at + length:
                break
            polynomial = values[first + size] - values[first] * powers[size]
            group = _pattern(message, view, slot * ACCESSES + _SUBSTRING, polynomial, first, size)
            if group >= 0:
                if message.seen[group] == message.call:
                    continue
                message.seen[group] = message.call
            number, hit = _hit(message, view, answer, hits, have, group, number, hit)
        if number >= answer.wanted:
            break
    return number, hit


@inlined
def _listed(message, attribute, view, answer, have, number, first):  # type: ignore[no-untyped-def]
    """The postings of an attribute that stand in lists: the four accesses from `first` on."""
    slot, key = message.rows[attribute, SLOT], message.rows[attribute, KEY]
    base = SLOT_LISTS + first
    present, from_ = view.slot_rows[slot, base], view.slot_rows[slot, base + 1]
    up_to, between, end = (
        view.slot_rows[slot, base + 2],
        view.slot_rows[slot, base + 3],
        view.slot_rows[slot, base + 4],
    )
    if present == end:
        return number
    number = _range(message, view, answer, have, present, from_, number, first)
    number = _range(message, view, answer, have, from_, _reached(view.lower, from_, up_to, key), number, first)
    number = _range(message, view, answer, have, up_to, _reaching(view.upper, up_to, between, key), number, first)
    end = _reached(view.lower, between, end, key)
    posting = _next_reaching(view, between, end, key)
    while posting < end and number < answer.wanted:
        number = _range(message, view, answer, have, posting, posting + 1, number, first)
        posting = _next_reaching(view, posting + 1, end, key)
    return number


@inlined
def _range(message, view, answer, have, begin, end, number, first):  # type: ignore[no-untyped-def]
    """Postings whose access is satisfied: units, or filters to be verified."""
    if begin >= end or number >= answer.wanted:
        return number
    if first == _UNITS:
        return take(answer, view, begin, end, number)
    return verify(message, view, answer, have, begin, end, number)


@inlined
def _reached(lower, begin, end, key):  # type: ignore[no-untyped-def]
    """The end of those bounds, in ascending order, that are at most `key`."""
    begin, end = np.int64(begin), np.int64(end)
    while begin < end:
        middle = (begin + end) >> 1
        if lower[middle] <= key:
            begin = middle + 1
        else:
            end = middle
    return begin


@inlined
def _reaching(upper, begin, end, key):  # type: ignore[no-untyped-def]
    """The end of those bounds, in descending order, that are at least `key`."""
    begin, end = np.int64(begin), np.int64(end)
    while begin < end:
        middle = (begin + end) >> 1
        if upper[middle] >= key:
            begin = middle + 1
        else:
            end = middle
    return begin


@inlined
def _next_reaching(view, posting, end, key):  # type: ignore[no-untyped-def]
    """The first posting from this one on whose upper bound is at least `key`, or `end`, or beyond."""
    posting = np.int64(posting)
    while posting < end:
        if posting % BLOCK == 0:
            if posting % (BLOCK * BLOCK) == 0 and view.blocks_upper[posting // (BLOCK * BLOCK)] < key:
                posting += BLOCK * BLOCK
                continue
            if view.block_upper[posting // BLOCK] < key:
                posting += BLOCK
                continue
        if view.upper[posting] >= key:
            return posting
        posting += 1
    return posting


