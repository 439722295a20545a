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

#: Types of records: a frame of another router came in; an application sent a message; the answer to the event
#: before.
FRAME_RECEIVED, SEND_MESSAGE, ACTIONS = 3, 6, 65
#: Types of actions: send the received frame with the hop limit reduced by one; send another frame; deliver
#: the message of the event; accept it from an application.
FORWARD, SEND, DELIVER, ACCEPTED = 1, 2, 4, 6

#: The beginning of an action: type, source and sequence number of a message; the number of applications and
#: each of them follow.
DELIVERED = struct.Struct("<BIQ")
#: An action: type, application, source and sequence number of its message.
ACCEPTANCE = struct.Struct("<BIIQ")
#: The number of interfaces or applications, which follow; an interface; an application; the length of bytes
#: that follow.
COUNT, INTERFACE, APPLICATION, LENGTH = (struct.Struct(f"<{code}") for code in "HHII")
