"""The compiled loop that fills the buffers of Arrow columns with the bodies of many frames.

Importing this module imports numba.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from captures.frames.body_checks import (
    BOOLEAN,
    MOST_ATTRIBUTES,
    MSG,
    RA,
    STRING,
    UR,
    attributes_of,
    is_number,
    is_predicate,
    number_in,
)
from captures.frames.predicate_text import predicate_text
from captures.pcap.compiling import compiler
from router.native.memory import address_of, load_u8, load_u32, load_u64, put_byte

Bytes = npt.NDArray[np.uint8]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

#: An attribute takes at least so many bytes: header of the TLV, name of one letter, type.
_LEAST_ATTRIBUTE = 8

kernel, callee = compiler().kernel, compiler().callee


class BodyBuffers(NamedTuple):
    """The contents of bodies, one behind the other; attributes of all rows are numbered through.

    Attributes:
        accepted: whether the loop decided on a row; the codec decides on the others.
        number: the number of a frame of one number.
        first_attribute: number of each row's first attribute, and of all attributes; shape (rows + 1,).
        name_start, names: where each attribute's name starts in `names`, and where the last ends.
        value_type: the type of each attribute's value.
        bits: the value of an integer, a boolean or a double (its bits); 0 of a string.
        string_start, strings: as for names; empty where the value is no string.
        text_start, texts: the predicate of each row, and where the last ends.
    """

    accepted: Mask
    number: Int64s
    first_attribute: Int32s
    name_start: Int32s
    names: Bytes
    value_type: Bytes
    bits: Int64s
    string_start: Int32s
    strings: Bytes
    text_start: Int32s
    texts: Bytes


@callee
def _copy(at: int, end: int, out: int, to: int) -> int:
    for position in range(end - at):
        put_byte(out, to + position, load_u8(at + position))
    return to + end - at


@kernel
def _fill(
    base: int,
    start: Any,
    length: Any,
    types: Any,
    required: tuple[bool, bool],
    accepted: Any,
    number: Any,
    first_attribute: Any,
    name_start: Any,
    value_type: Any,
    bits: Any,
    string_start: Any,
    text_start: Any,
    outputs: tuple[int, int, int, int],
) -> tuple[int, int, int, int]:
    """Fills the buffers from the bodies of `length` bytes at base + start; a length below 0 is of no body.

    Args:
        required: whether attributes are filled in, and predicates.
        outputs: the addresses of names, strings and texts, and the room for texts.
    """
    at_names = np.empty(MOST_ATTRIBUTES, np.int64)
    names, strings, texts, room = outputs
    attribute = name_end = string_end = text_end = 0
    for row in range(len(start)):
        first_attribute[row], text_start[row] = attribute, text_end
        accepted[row] = False
        if length[row] < 0:
            continue
        at = base + start[row]
        end, frame_type = at + length[row], types[row]
        if frame_type == MSG:
            count = attributes_of(at, end, at_names)
            accepted[row] = count >= 0
            for index in range(count if required[0] else 0):
                name = at_names[index]
                kind = name + 1 + load_u8(name)
                behind = name + load_u32(name - 4)
                name_start[attribute] = name_end
                name_end = _copy(name + 1, kind, names, name_end)
                string_start[attribute] = string_end
                of_type = load_u8(kind)
                value_type[attribute] = of_type
                if of_type == STRING:
                    bits[attribute] = 0
                    string_end = _copy(kind + 1, behind, strings, string_end)
                else:
                    bits[attribute] = load_u8(kind + 1) if of_type == BOOLEAN else load_u64(kind + 1)
                attribute += 1
        elif frame_type in (RA, UR):
            accepted[row] = is_predicate(at, end)
            if accepted[row] and required[1]:
                text = predicate_text(at, end, texts, text_end, room)
                accepted[row] = text >= 0
                text_end = max(text, text_end)
        elif is_number(frame_type):
            number[row] = number_in(at, end, frame_type)
            accepted[row] = number[row] >= 0
    first_attribute[len(start)], text_start[len(start)] = attribute, text_end
    name_start[attribute], string_start[attribute] = name_end, string_end
    return attribute, name_end, string_end, text_end


def fill(
    raw: Bytes, start: Int64s, length: Int64s, types: Int64s, *, attributes: bool, predicates: bool
) -> BodyBuffers:
    """The bodies raw[start:start+length] of frames of these type numbers; a length below 0: no body.

    Args:
        attributes, predicates: whether they are filled in. Bodies are checked in any case.
    """
    rows = len(start)
    # The buffers have room for whatever the bodies hold; memory that is not written to costs nothing.
    of_messages = int(np.maximum(length[types == MSG], 0).sum()) if attributes else 0
    of_predicates = int(np.maximum(length[(types == RA) | (types == UR)], 0).sum()) if predicates else 0
    most, room = of_messages // _LEAST_ATTRIBUTE + 1, 4 * of_predicates + 64 * rows
    buffers = BodyBuffers(
        np.empty(rows, np.bool_),
        np.empty(rows, np.int64),
        np.empty(rows + 1, np.int32),
        np.empty(most + 1, np.int32),
        np.empty(of_messages, np.uint8),
        np.empty(most, np.uint8),
        np.empty(most, np.int64),
        np.empty(most + 1, np.int32),
        np.empty(of_messages, np.uint8),
        np.empty(rows + 1, np.int32),
        np.empty(room, np.uint8),
    )
    outputs = (address_of(buffers.names), address_of(buffers.strings), address_of(buffers.texts), room)
    count, names, strings, texts = _fill(
        address_of(raw), start, length, types, (attributes, predicates), buffers.accepted, buffers.number,
        buffers.first_attribute, buffers.name_start, buffers.value_type, buffers.bits, buffers.string_start,
        buffers.text_start, outputs,
    )  # fmt: skip
    return buffers._replace(
        name_start=buffers.name_start[: count + 1],
        names=buffers.names[:names],
        value_type=buffers.value_type[:count],
        bits=buffers.bits[:count],
        string_start=buffers.string_start[: count + 1],
        strings=buffers.strings[:strings],
        texts=buffers.texts[:texts],
    )
