"""Types of frames in the accounting: a private frame counts as the plain frame in whose place it is.

All tables and keys of a private run then have the meaning of those of a plain run. The formats `pcap` and
`cbcb` show the types as captured.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from router.wire.format import STANDS_FOR

#: Name of a private type -> name of the plain type.
PLAIN_NAMES = {private.name: plain.name for private, plain in STANDS_FOR.items()}


def plain_name(name: str) -> str:
    """The type under which frames of a type are counted."""
    return PLAIN_NAMES.get(name, name)


def with_plain_types(frames: pa.Table) -> pa.Table:
    """Decoded frames with the types under which they are counted."""
    types = frames["type"]
    for private, plain in PLAIN_NAMES.items():
        types = pc.if_else(pc.fill_null(pc.equal(types, private), False), plain, types)
    place = frames.schema.get_field_index("type")
    return frames.set_column(place, frames.schema.field("type"), types.cast(frames.schema.field("type").type))
