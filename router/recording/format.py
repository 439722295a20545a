"""Numbers of the format of recordings that compiled code writes too."""

from __future__ import annotations

#: Types of records: a frame of another router came in; an application sent a message; the answer to the event
#: before.
FRAME_RECEIVED, SEND_MESSAGE, ACTIONS = 3, 6, 65
#: Types of actions: send the received frame with the hop limit reduced by one; send another frame; deliver
#: the message of the event; accept it from an application.
FORWARD, SEND, DELIVER, ACCEPTED = 1, 2, 4, 6
