"""Writing capture files: nanosecond pcap of Ethernet frames, little-endian."""

from __future__ import annotations

import struct

#: Version 2.4, a snapshot length that no frame reaches, link type Ethernet.
FILE_HEADER = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262_144, 1)
_RECORD = struct.Struct("<IIII")
_NS = 10**9


def record_header(time_ns: int, length: int) -> bytes:
    """The header of the record of a whole frame.

    Args:
        time_ns: time of capture, ns since 1970 UTC.
        length: bytes of the frame, which follows the header in the file.
    """
    return _RECORD.pack(*divmod(time_ns, _NS), length, length)
