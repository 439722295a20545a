"""Body columns from the buffers of the compiled loop (`captures.frames.body_loops`), without Python objects.

Importing this module imports numba.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from captures.frames.body_loops import BodyBuffers, fill
from captures.frames.columns import ATTRIBUTES, BODY_COLUMNS, NUMBER, SCHEMA, TYPE_LABELS, VALUE
from captures.pcap.reader import Block
from router.predicates.model import Type
from router.wire.format import FrameType

Int64s = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_NUMBER_COLUMNS = {
    "timeout_us": (FrameType.SR,),
    "incarnation": (FrameType.HELLO,),
    "oldest_epoch": (FrameType.COMMIT,),
    "acknowledged": (FrameType.ACK, FrameType.RECEIPT),
}


def compiled_columns(
    block: Block, start: Int64s, length: Int64s, types: Int64s, wanted: Container[str]
) -> tuple[dict[str, pa.Array], Mask]:
    """The required body columns of the frames of a block, and the frames on which the codec must decide.

    Args:
        start: offset of each frame's body in the bytes of the block.
        length: bytes of each body; below 0: the frame has no whole body, and the loop leaves it out.
        types: frame type of each frame.
    """
    attributes, predicates = "attributes" in wanted, "predicate" in wanted
    raw = np.frombuffer(block.data, np.uint8)
    buffers = fill(raw, start, length, types, attributes=attributes, predicates=predicates)
    columns: dict[str, pa.Array] = {}
    for name in BODY_COLUMNS:
        if name not in wanted:
            continue
        if name == "attributes":
            columns[name] = _maps(buffers, buffers.accepted & (types == FrameType.MSG))
        elif name == "predicate":
            has = buffers.accepted & ((types == FrameType.RA) | (types == FrameType.UR))
            columns[name] = _strings(buffers.text_start, buffers.texts, has)
        elif name == "attention":
            # The codec decodes all of its frames.
            columns[name] = pa.nulls(len(types), SCHEMA.field(name).type)
        else:
            columns[name] = _numbers(name, buffers, buffers.accepted & np.isin(types, _NUMBER_COLUMNS[name]))
    return columns, ~buffers.accepted & (length >= 0)


def _numbers(name: str, buffers: BodyBuffers, has: Mask) -> pa.Array:
    kind = SCHEMA.field(name).type
    if not has.any():
        return pa.nulls(len(has), kind)
    if kind != pa.string():
        return pa.array(buffers.number, kind, mask=~has)
    index = pa.array(np.where(has, buffers.number, 0).astype(np.int16), mask=~has)
    return pa.DictionaryArray.from_arrays(index, TYPE_LABELS).cast(kind)


def _maps(buffers: BodyBuffers, has: Mask) -> pa.MapArray:
    count = len(buffers.value_type)
    keys = pa.StringArray.from_buffers(count, pa.py_buffer(buffers.name_start), pa.py_buffer(buffers.names))
    kinds, fields = buffers.value_type, []
    for value_type, values in (
        (Type.STRING, (buffers.string_start, buffers.strings)),
        (Type.INTEGER, (buffers.bits,)),
        (Type.DOUBLE, (buffers.bits,)),
    ):
        fields.append(_of_kind(VALUE[value_type.name.lower()].type, kinds == value_type, *values))
    truths = np.packbits(buffers.bits != 0, bitorder="little")
    fields.append(_of_kind(VALUE["boolean"].type, kinds == Type.BOOLEAN, truths))
    numbers = np.where(kinds == Type.DOUBLE, buffers.bits.view(np.float64), buffers.bits.astype(np.float64))
    fields.append(_of_kind(NUMBER.type, (kinds == Type.INTEGER) | (kinds == Type.DOUBLE), numbers))
    items = pa.StructArray.from_arrays(fields, fields=list(VALUE))
    offsets = pa.Array.from_buffers(pa.int32(), len(has) + 1, [None, pa.py_buffer(buffers.first_attribute)])
    return pa.MapArray.from_arrays(offsets, keys, items, type=ATTRIBUTES, mask=_nulls(has))


def _of_kind(kind: pa.DataType, has: Mask, *values: npt.NDArray[Any]) -> pa.Array:
    """An array of the values of one type, null where a value is of another."""
    if not has.any():
        return pa.nulls(len(has), kind)
    return pa.Array.from_buffers(kind, len(has), [_validity(has), *map(pa.py_buffer, values)])


def _strings(start: npt.NDArray[np.int32], texts: npt.NDArray[np.uint8], has: Mask) -> pa.Array:
    buffers = [_validity(has), pa.py_buffer(start), pa.py_buffer(texts)]
    return pa.Array.from_buffers(pa.string(), len(has), buffers)


def _validity(has: Mask) -> pa.Buffer | None:
    return None if has.all() else pa.py_buffer(np.packbits(has, bitorder="little"))


def _nulls(has: Mask) -> pa.BooleanArray | None:
    return None if has.all() else pa.array(~has)
