"""The records that routers and applications write to files: their fields and their encoding."""

from typing import Literal

#: What a router sends of a message: one frame, "parts" (a frame for each of some destinations), or "copies"
#: (such frames, several on a link).
MessageFrames = Literal["one", "parts", "copies"]
