"""The layouts and numbers of the format of recordings that compiled code writes too."""

from __future__ import annotations

import struct

#: The head of a record: type, length of what follows. That of an event goes on with the time, seconds.
RECORD = struct.Struct("<BI")
EVENT = struct.Struct("<BId")
#: The bytes of an event that its length counts beyond its content.
TIME_BYTES = EVENT.size - RECORD.size
#: Offsets in a record: the length, and the time of an event.
LENGTH_AT, TIME_AT = 1, RECORD.size

#: Types of records: a frame of another router came in; the answer to the event before.
FRAME_RECEIVED, ACTIONS = 3, 65
#: Type of an action: send the received frame with the hop limit reduced by one.
FORWARD = 1

#: The number of interfaces or applications, which follow; an interface.
COUNT, INTERFACE = struct.Struct("<H"), struct.Struct("<H")
