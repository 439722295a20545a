"""Compiled columns of bodies: equal to those of the codec and the printer, whatever the frames."""

from __future__ import annotations

from random import Random
from typing import Any
from unittest.mock import patch

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

from captures.frames.columns import BODY_COLUMNS, SCHEMA
from captures.frames.decoder import FrameDecoder
from captures.frames.identity import CaptureIdentity
from captures.pcap.compiling import numba_is_there
from captures.pcap.reader import Block
from router.predicates.lexer import KEYWORDS
from router.predicates.model import STRING_ONLY, Constraint, Filter, Message, Operator, Predicate, Type
from router.wire import codec
from router.wire.addresses import node_address
from router.wire.frames import Ack, Body, Commit, Frame, FrameType, Hello, SenderRequest
from tests.support.mutated_frames import mutated
from tests.vectors.wire_vectors import FRAGMENTED, MALFORMED, WHOLE

pytestmark = pytest.mark.skipif(not numba_is_there(), reason="numba is not installed")

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


@st.composite
def _constraints(draw: st.DrawFn) -> Constraint:
    kind = draw(st.sampled_from(Type))
    allowed = [each for each in Operator if kind is Type.STRING or each not in STRING_ONLY]
    operator = draw(st.sampled_from(allowed))
    value = None if operator is Operator.ANY else draw(_VALUES[kind])
    return Constraint(draw(_NAMES), kind, operator, value)


_FILTERS = st.lists(_constraints(), max_size=4).map(lambda each: Filter(tuple(each)))
_PREDICATES = st.lists(_FILTERS, max_size=4).map(lambda each: Predicate(tuple(each)))
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
    lambda kind: _BODIES[kind].map(lambda body: codec.encode(Frame(kind, 9, 4, 2, 63, body)))
)


def _block(payloads: list[bytes]) -> Block:
    frames = [node_address(1) + node_address(2) + b"\x88\xb5" + payload for payload in payloads]
    length = np.array([len(frame) for frame in frames], np.int64)
    times = np.arange(len(frames), dtype=np.int64)
    return Block(b"".join(frames), np.cumsum(length) - length, length, length, times)


def _decoded(block: Block, columns: tuple[str, ...], *, compiled: bool) -> pa.RecordBatch:
    with patch("captures.frames.decoder.should_compile", return_value=compiled):
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


@settings(deadline=None)
@given(st.lists(_PAYLOADS, max_size=12))
def test_well_formed_bodies_have_the_columns_of_the_codec(payloads: list[bytes]) -> None:
    _assert_equal(payloads)


@settings(deadline=None)
@given(st.integers(0, 2**32))
def test_fuzzed_frames_have_the_columns_of_the_codec(seed: int) -> None:
    random = Random(seed)
    _assert_equal([mutated(random) for _ in range(40)])


def test_vectors_have_the_columns_of_the_codec() -> None:
    payloads = [
        *(vector.payload for vector in WHOLE),
        *(vector.payload for vector in MALFORMED),
        *(payload for vector in FRAGMENTED for payload in vector.payloads),
    ]
    _assert_equal(payloads)
    for column in (*BODY_COLUMNS, "undecodable"):
        _assert_equal(payloads, (column,))


def test_doubles_are_written_as_python_writes_them() -> None:
    random = Random(1)
    values = [random.choice((-1, 1)) * random.randrange(10 ** random.randrange(1, 18)) for _ in range(4000)]
    doubles = [value / 10 ** random.randrange(8) for value in values] + [0.0, -0.0, 1e15, 1e16, 1e-4, 1e-5]
    predicate = Predicate(
        tuple(Filter((Constraint("x", Type.DOUBLE, Operator.EQ, each),)) for each in doubles)
    )
    one_each = [Predicate((filter_,)) for filter_ in predicate]
    frames = [Frame(FrameType.RA, 9, 4, 2, 63, body) for body in one_each]
    found = _decoded(_block([codec.encode(frame) for frame in frames]), ("predicate",), compiled=True)
    assert found.column("predicate").to_pylist() == [f"x = {each!r}" for each in doubles]


def test_the_compiled_loop_decides_on_common_bodies_itself() -> None:
    from captures.frames.compiled_bodies import compiled_columns

    bodies: dict[FrameType, Body] = {
        FrameType.MSG: Message({"price": 0.25, "stöck": "é", "n": 3, "open": True}),
        FrameType.RA: Predicate((Filter((Constraint("x", Type.DOUBLE, Operator.LT, 0.25),)),)),
        FrameType.HELLO: Hello(4),
        FrameType.ACK: Ack(FrameType.TABLE),
    }
    payloads = [codec.encode(Frame(kind, 9, 4, 2, 63, body)) for kind, body in bodies.items()]
    block = _block(payloads)
    length = np.array([len(payload) - codec.HEADER_LENGTH for payload in payloads], np.int64)
    start = block.start + 14 + codec.HEADER_LENGTH
    _, left = compiled_columns(block, start, length, np.array(list(bodies), np.int64), BODY_COLUMNS)
    assert left.tolist() == [False] * len(bodies)
