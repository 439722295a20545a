"""Columns of bodies in compiled code: equal to those of the codec, whatever the frames."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
from hypothesis import given

from captures.frames import CaptureIdentity
from captures.frames.columns import SCHEMA
from captures.frames.decoder import FrameDecoder
from captures.pcap.blocks import Block
from router.predicates import Message, Type
from router.predicates.lexer import KEYWORDS
from router.wire.frames import Ack, Commit, Frame, FrameType, Hello, SenderRequest
from router.wire.header import node_address
from tests.support.compiled_loops import loops
from tests.support.predicate_worlds import constraints_of, predicates_of
from tests.support.whole_frames import encode

_ANY = CaptureIdentity("any", None)
_TEXT = st.text(st.characters(codec="utf-8"), max_size=8) | st.text('ab "\\\n~\x7fé', max_size=6)
_NAMES = st.sampled_from(["x", "a.b-c", "_9", "9x", "é", "andy", 'a"b', *sorted(KEYWORDS)]) | _TEXT.filter(
    len
)
_DOUBLES = st.floats(allow_nan=False, allow_infinity=False) | st.builds(
    lambda digits, decimals: digits / 10**decimals, st.integers(-(10**16), 10**16), st.integers(0, 6)
)
_LIMITS = st.sampled_from([-(2**63), 2**63 - 1, 0, -1])
_VALUES: dict[Type, st.SearchStrategy[Any]] = {
    Type.STRING: _TEXT,
    Type.INTEGER: _LIMITS | st.integers(-(2**63), 2**63 - 1),
    Type.DOUBLE: _DOUBLES,
    Type.BOOLEAN: st.booleans(),
}
_MESSAGES = st.dictionaries(_NAMES, st.one_of(*_VALUES.values()), max_size=40).map(Message)
_PREDICATES = predicates_of(constraints_of(_NAMES, _VALUES))
_NUMBERS = st.integers(0, 2**32 - 1)
_BODIES: dict[FrameType, st.SearchStrategy[Any]] = {
    FrameType.MSG: _MESSAGES,
    FrameType.RA: _PREDICATES,
    FrameType.UR: _PREDICATES,
    FrameType.SR: st.builds(SenderRequest, _NUMBERS),
    FrameType.HELLO: st.builds(Hello, _NUMBERS),
    FrameType.COMMIT: st.builds(Commit, _NUMBERS),
    FrameType.ACK: st.builds(Ack, st.sampled_from(FrameType)),
}
_PAYLOADS = st.sampled_from(sorted(_BODIES)).flatmap(
    lambda kind: _BODIES[kind].map(lambda body: encode(Frame(kind, 9, 4, 2, 63, body)))
)


def _block(payloads: list[bytes]) -> Block:
    frames = [node_address(1) + node_address(2) + b"\x88\xb5" + payload for payload in payloads]
    length = np.array([len(frame) for frame in frames], np.int64)
    times = np.arange(len(frames), dtype=np.int64)
    return Block(b"".join(frames), np.cumsum(length) - length, length, length, times)


def _decoded(block: Block, columns: tuple[str, ...], *, compiled: bool) -> pa.RecordBatch:
    with loops(compiled=compiled):
        batch = FrameDecoder(_ANY, columns).decode(block)
    batch.validate(full=True)
    return batch


def _assert_equal(payloads: list[bytes], columns: tuple[str, ...] = tuple(SCHEMA.names)) -> None:
    block = _block(payloads)
    found = _decoded(block, columns, compiled=True)
    expected = _decoded(block, columns, compiled=False)
    assert found.schema == expected.schema
    # As text, so that a double of -0.0 is none of 0.0.
    assert list(map(repr, found.to_pylist())) == list(map(repr, expected.to_pylist()))


@given(st.lists(_PAYLOADS, max_size=12))
def test_well_formed_bodies_have_the_columns_of_the_codec(payloads: list[bytes]) -> None:
    _assert_equal(payloads)
