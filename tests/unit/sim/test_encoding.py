"""Frames that are measured in place of being encoded, where nobody reads their bytes."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from router.predicates.model import Message
from router.predicates.parser import parse_predicate
from router.wire.frames import Frame, FrameType, Publication
from testbed.sim.encoding import Encoder, Measurer


def test_measured_frames_are_as_long_as_encoded_ones() -> None:
    """Of frames that share a body some have another type, a signature, or a body as received."""
    rng = random.Random(1)
    publications = [Publication(1, seq, 0, Message({"x": "y" * rng.randrange(3000)})) for seq in range(50)]
    addressed = [replace(each, homes=(2, 3)) for each in publications]
    predicate = parse_predicate("x = 1 or y = 2")
    frames = [Frame(FrameType.FLUSH, 1, body.seq, 1, 9, body) for body in publications]
    frames += [Frame(FrameType.PUB, 1, body.seq, 1, 9, body) for body in addressed]
    frames += [Frame(FrameType.PUB, 1, body.seq, 1, 9, body, signature=bytes(64)) for body in addressed]
    frames += [Frame(kind, 1, 1, 1, 9, predicate) for kind in (FrameType.RA, FrameType.UR)]
    frames += [Frame(FrameType.RA, 1, 1, 1, 9, predicate, received=bytes(size)) for size in (0, 99, 4000)]
    encoder, measurer = Encoder(), Measurer()
    for frame in rng.choices(frames, k=1000):
        found = [len(each) for each in measurer.payloads(frame)]
        assert found == [len(each) for each in encoder.payloads(frame)]


def test_a_body_is_measured_for_each_type_of_its_frames() -> None:
    """The homes of a publication are in a PUB and not in a FLUSH."""
    body = Publication(1, 1, 0, Message({"x": 1}), homes=(2, 3))
    frames = [Frame(kind, 1, 1, 1, 9, body) for kind in (FrameType.PUB, FrameType.FLUSH, FrameType.PUB)]
    measurer = Measurer()
    lengths = [[len(each) for each in measurer.payloads(frame)] for frame in frames]
    assert lengths == [[len(each) for each in Encoder().payloads(frame)] for frame in frames]
    assert lengths[0] != lengths[1]


def test_a_body_outside_the_format_is_refused_as_an_encoder_does() -> None:
    frame = Frame(FrameType.PUB, 1, 1, 1, 9, Publication(1, 1, 0, Message({"x": 1})))
    for payloads in (Encoder().payloads, Measurer().payloads):
        with pytest.raises(ValueError, match=r"destinations \(\)"):
            payloads(frame)
