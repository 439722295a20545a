"""Blocks of packets of small files, collected until they are decoded together (`captures.pcap.joined`)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from captures.pcap.joined import JoinedBlocks
from captures.pcap.reader import Block

#: Files of at most this size are read together.
SMALL_BYTES = 256 * 1024
#: Blocks are decoded when they have this size together, or so many packets.
_MOST_BYTES, _MOST_PACKETS = 4 * 1024 * 1024, 50_000


class SmallFiles:
    """Collects blocks, each with the decoder of its file."""

    def __init__(self) -> None:
        self._decoders: list[Any] = []
        self._blocks: list[Block] = []
        self._bytes = self._packets = 0

    def add(self, decoder: Any, block: Block) -> bool:
        """Adds the next block of a file.

        Returns whether the blocks should be decoded now.
        """
        first, end = int(block.start[0]), int(block.start[-1] + block.captured[-1])
        # A copy: the reader's buffer, of some MB for each file, is not held.
        data = bytes(block.data[first:end])
        self._decoders.append(decoder)
        self._blocks.append(replace(block, data=data, start=block.start - first, offset=block.offset + first))
        self._bytes += len(data)
        self._packets += len(block.start)
        return self._bytes >= _MOST_BYTES or self._packets >= _MOST_PACKETS

    def take(self) -> tuple[list[Any], JoinedBlocks] | None:
        """The decoders of the blocks, and the blocks as one; None: there is none.

        The next block that is added is the first of the next batch.
        """
        if not self._blocks:
            return None
        taken = self._decoders, JoinedBlocks(self._blocks)
        self._decoders, self._blocks, self._bytes, self._packets = [], [], 0, 0
        return taken
