"""Targets of captures: files, frames as columns, headers of packets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.fuzz.inputs import Run, Source, files_of_this_process

if TYPE_CHECKING:
    from captures.pcap.blocks import Block


def pcap() -> Run:
    """Capture files of any origin, read to their end: the compiled walk and the plain one find the same."""
    from captures.pcap import PcapError
    from captures.pcap.reader import PcapReader, Record
    from tests.support.compiled_loops import WAYS, loops

    path = files_of_this_process() / "fuzzed.pcap"

    def read(compiled: bool) -> tuple[list[Record], str | None, str | None]:
        reader, records = PcapReader(path), list[Record]()
        try:
            with loops(compiled=compiled):
                records.extend(reader.records())
        except PcapError as error:
            return records, reader.defect, str(error)
        return records, reader.defect, None

    def run(data: bytes) -> None:
        path.write_bytes(data)
        found = [read(compiled) for compiled in WAYS]
        assert found[0] == found[1]

    return run


def frames() -> Run:
    """Ethernet frames as columns: compiled loops and plain Python say the same."""
    from captures.frames import CaptureIdentity
    from captures.frames.decoder import FrameDecoder
    from tests.support.compiled_loops import WAYS, loops

    captures = (
        CaptureIdentity("link-0-1", "link", link=0, u=0, v=1),
        CaptureIdentity("host-1", "host", node=1),
        CaptureIdentity("other", None),
    )

    def run(data: bytes) -> None:
        source = Source(data)
        capture = captures[source.number(3)]
        block = _block(source)
        if block is None:
            return
        found = []
        for compiled in WAYS:
            with loops(compiled=compiled):
                found.append(FrameDecoder(capture).decode(block))
        # By their texts: NaN is NaN.
        assert found[0].equals(found[1]) or str(found[0].to_pylist()) == str(found[1].to_pylist())

    return run


def packets() -> Run:
    """IP headers behind link headers of many types: compiled loops and plain Python find the same."""
    from captures.pcap.internet import internet_headers
    from tests.support.compiled_loops import WAYS, loops

    def run(data: bytes) -> None:
        block = _block(Source(data), link_types=(1, 113, 276, 12, 101, 228, 229, 0, 108, 9, 50, 51, 239, 147))
        if block is None:
            return
        found = []
        for compiled in WAYS:
            with loops(compiled=compiled):
                found.append(internet_headers(block))
        assert found[0] == found[1]

    return run


#: From node 1 to its port 1: the Ethernet header of many frames of an input.
_ETHERNET = bytes.fromhex("03000000000102cb0000000188b5")


def _block(source: Source, link_types: tuple[int, ...] = ()) -> Block | None:
    """The packets of an input, in the order of their times; None: it has none.

    Args:
        link_types: those that packets may have, each a choice of its own; none: all are Ethernet, and an
            Ethernet header comes before every second packet.
    """
    import numpy as np

    from captures.pcap.blocks import Block

    found: list[bytes] = []
    kinds: list[int] = []
    while source.left:
        choice = source.number(256)
        kinds.append(link_types[choice % len(link_types)] if link_types else 1)
        head = b"" if link_types or choice % 2 else _ETHERNET
        found.append(head + source.take(source.number(256)))
    if not found:
        return None
    captured = np.array([len(each) for each in found], np.int64)
    start = np.cumsum(captured) - captured
    times = 700 * np.arange(len(found), dtype=np.int64)
    link_type = np.array(kinds, np.int64) if link_types else None
    # Behind the last packet is something else, as in a file.
    return Block(b"".join([*found, bytes(8)]), start, captured, captured, times, link_type=link_type)
