"""All decoders agree on fuzzed frames."""

from __future__ import annotations

from router.wire.format import DecodeReason
from tests.support.decoders import check
from tests.support.fuzz import cases
from tests.support.wire_tshark import needs_tshark


@needs_tshark
def test_decoders_agree_on_fuzzed_frames() -> None:
    counts, wrong = check(cases(4000))
    assert wrong == []
    assert counts["decodes"] > 300
    assert set(counts) == {"decodes", *DecodeReason}
