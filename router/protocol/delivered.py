"""Which messages were delivered, so that a repeated one is not delivered a second time.

A message is known by its source and its number. Numbers are not compared with greater numbers: a message that
others overtook is delivered, and a forged number shuts no source out.
"""

from __future__ import annotations

from collections import OrderedDict

#: Messages that are remembered: the last that were delivered.
MESSAGES = 1 << 14


class Delivered:
    """The messages that this router delivered last, in the order of their deliveries."""

    def __init__(self) -> None:
        self._messages: OrderedDict[tuple[int, int], None] = OrderedDict()

    def __contains__(self, message: tuple[int, int]) -> bool:
        return message in self._messages

    def discard(self, source: int, number: int) -> None:
        """Forgets a message that was not delivered after all."""
        self._messages.pop((source, number), None)

    def add(self, source: int, number: int) -> None:
        """Adds a message that is not there."""
        self._messages[source, number] = None
        if len(self._messages) > MESSAGES:
            self._messages.popitem(last=False)
