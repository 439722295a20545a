"""The walk over the records of a capture: place, length and time of each packet.

The loops stop before a record that is not whole, at a pcapng block without a packet that the reader must
interpret, and at damage. They never pass a part of a record on as a packet.
"""

from __future__ import annotations

from typing import Any

from captures.pcap.compiling import Loop

#: Time of a packet that has none: simple packets of pcapng, stamps outside 64 bits of nanoseconds, fractions
#: above two seconds. Clocks that add a correction and carry no second write up to two.
NO_TIME = -(2**63)
#: Reasons for which a walk stops: no more whole records; a malformed record; no more rows; a block that the
#: reader must interpret.
END, DAMAGE, FULL, CONTROL = 0, 1, 2, 3


def _walk_pcap(
    data: Any,
    position: int,
    end: int,
    big_endian: bool,
    unit_ns: int,
    most_captured: int,
    start: Any,
    captured: Any,
    length: Any,
    time_ns: Any,
) -> tuple[int, int, int]:
    """Fills a row of the arrays for each packet of data[position:end].

    Returns:
        The number of packets, the position behind the last record, the reason for the stop.
    """
    a, b, c, d = (24, 16, 8, 0) if big_endian else (0, 8, 16, 24)
    rows = len(start)
    row = 0
    while end - position >= 16:
        if row == rows:
            return row, position, FULL
        p = position
        here = 0 + (data[p + 8] << a | data[p + 9] << b | data[p + 10] << c | data[p + 11] << d)
        original = 0 + (data[p + 12] << a | data[p + 13] << b | data[p + 14] << c | data[p + 15] << d)
        if here > most_captured:
            return row, position, DAMAGE
        record_end = position + 16 + here
        if record_end > end:
            break
        seconds = data[p] << a | data[p + 1] << b | data[p + 2] << c | data[p + 3] << d
        fraction = data[p + 4] << a | data[p + 5] << b | data[p + 6] << c | data[p + 7] << d
        start[row] = position + 16
        captured[row] = here
        length[row] = original
        time_ns[row] = seconds * 1_000_000_000 + fraction * unit_ns
        if fraction * unit_ns > 2_000_000_000:
            time_ns[row] = NO_TIME
        row += 1
        position = record_end
    return row, position, END


def _walk_pcapng(
    data: Any,
    position: int,
    end: int,
    big_endian: bool,
    interfaces: Any,
    most_captured: int,
    most_block: int,
    start: Any,
    captured: Any,
    length: Any,
    time_ns: Any,
    interface: Any,
) -> tuple[int, int, int]:
    """As `_walk_pcap`.

    Args:
        interfaces: a row for each interface of the section, as `captures.pcap.Interface`.
        most_block: the greatest length of a block.
    """
    a, b, c, d = (24, 16, 8, 0) if big_endian else (0, 8, 16, 24)
    e, f = (8, 0) if big_endian else (0, 8)
    rows = len(start)
    known = len(interfaces)
    row = 0
    while end - position >= 12:
        if row == rows:
            return row, position, FULL
        p = position
        block_type = data[p] << a | data[p + 1] << b | data[p + 2] << c | data[p + 3] << d
        if block_type == 0x0A0D0D0A or block_type == 1:
            return row, position, CONTROL
        size = data[p + 4] << a | data[p + 5] << b | data[p + 6] << c | data[p + 7] << d
        if size < 12 or size % 4 != 0 or size > most_block:
            return row, position, DAMAGE
        with_packet = block_type == 6 or block_type == 2 or block_type == 3
        record_end = position + size
        if record_end > end:
            break
        p = record_end - 4
        if (data[p] << a | data[p + 1] << b | data[p + 2] << c | data[p + 3] << d) != size:
            return row, position, DAMAGE
        if with_packet:
            number = 0
            ticks = -1
            p = position + 8
            if block_type == 3:
                if size < 16 or known == 0:
                    return row, position, DAMAGE
                original = 0 + (data[p] << a | data[p + 1] << b | data[p + 2] << c | data[p + 3] << d)
                here = original
                if interfaces[0][0] != 0 and here > interfaces[0][0]:
                    here = interfaces[0][0]
                at = position + 12
            else:
                if size < 32:
                    return row, position, DAMAGE
                if block_type == 6:
                    number = 0 + (data[p] << a | data[p + 1] << b | data[p + 2] << c | data[p + 3] << d)
                else:
                    number = 0 + (data[p] << e | data[p + 1] << f)
                if number >= known:
                    return row, position, DAMAGE
                high = 0 + (data[p + 4] << a | data[p + 5] << b | data[p + 6] << c | data[p + 7] << d)
                low = 0 + (data[p + 8] << a | data[p + 9] << b | data[p + 10] << c | data[p + 11] << d)
                if high < 0x80000000:
                    ticks = high << 32 | low
                p += 12
                here = 0 + (data[p] << a | data[p + 1] << b | data[p + 2] << c | data[p + 3] << d)
                p += 4
                original = 0 + (data[p] << a | data[p + 1] << b | data[p + 2] << c | data[p + 3] << d)
                at = position + 28
            if here > most_captured or at + here > record_end - 4:
                return row, position, DAMAGE
            mul, div, shift = interfaces[number][1], interfaces[number][2], interfaces[number][3]
            offset, most_ticks = interfaces[number][4], interfaces[number][5]
            if ticks < 0 or ticks > most_ticks:
                time_ns[row] = NO_TIME
            elif shift == 0:
                time_ns[row] = ticks // div * mul + offset
            else:
                # 2^-shift seconds: the fraction times 10^9 may exceed 64 bits, its halves do not.
                whole = ticks >> shift
                part = ticks - (whole << shift)
                if shift <= 32:
                    part = (part * 1_000_000_000) >> shift
                else:
                    upper = part >> 32
                    lower = part - (upper << 32)
                    part = (upper * 1_000_000_000 + (lower * 1_000_000_000 >> 32)) >> (shift - 32)
                time_ns[row] = whole * 1_000_000_000 + part + offset
            start[row] = at
            captured[row] = here
            length[row] = original
            interface[row] = number
            row += 1
        position = record_end
    return row, position, END


# numba types a shifted byte as unsigned; `0 +` makes it a signed number, as the other numbers are.
WALK_PCAP = Loop(_walk_pcap)
WALK_PCAPNG = Loop(_walk_pcapng)
