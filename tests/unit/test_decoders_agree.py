"""A part of `./run.sh bench decoders`: all decoders agree on fuzzed frames."""

from __future__ import annotations

from router.wire.format import DecodeReason
from tests.bench.decoders import check
from tests.support.wire_tshark import needs_tshark


@needs_tshark
def test_decoders_agree_on_fuzzed_frames() -> None:
    counts, wrong = check(seed=0, count=4000)
    assert wrong == []
    assert counts["decodes"] > 300
    assert set(counts) == {"decodes", *DecodeReason}
