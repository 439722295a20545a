"""Writing capture files: nanosecond pcap, little-endian."""

from __future__ import annotations

import struct

_RECORD = struct.Struct("<IIII")
_NS = 10**9


def file_header(link_type: int = 1) -> bytes:
    """The header of a file with packets of a link type (1: Ethernet).

    Version 2.4, with a snapshot length that no frame reaches.
    """
    return struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262_144, link_type)


FILE_HEADER = file_header()


def record_header(time_ns: int, captured: int, length: int | None = None) -> bytes:
    """The header of the record of a frame.

    Args:
        time_ns: time of capture, ns since 1970 UTC.
        captured: bytes of the frame that follow the header in the file.
        length: bytes of the frame on the wire; None: as captured.

    Raises:
        struct.error: the time is before 1970 or after 2106, or a length has more than 32 bits.
    """
    return _RECORD.pack(*divmod(time_ns, _NS), captured, captured if length is None else length)
