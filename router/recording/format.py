"""Numbers of the format of recordings that compiled code writes too."""

from __future__ import annotations

#: Types of records: a frame of another router came in; the answer to the event before.
FRAME_RECEIVED, ACTIONS = 3, 65
#: Types of actions: send the received frame with the hop limit reduced by one; deliver the message of the
#: event.
FORWARD, DELIVER = 1, 4
