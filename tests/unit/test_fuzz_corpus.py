"""The corpus of the fuzzed functions and its mutations, within their bounds of time and memory."""

from __future__ import annotations

import os
from random import Random

import pytest

from tests.fuzz import bounds
from tests.fuzz.bounds import OverBoundError, checked
from tests.fuzz.corpus import kept
from tests.fuzz.inputs import LONGEST, mutated
from tests.fuzz.targets import TARGETS, warm
from tests.support.fuzz import cases


@pytest.mark.parametrize("target", TARGETS)
def test_every_kept_input_passes_within_its_bounds(target: str) -> None:
    inputs = kept(target)
    assert inputs
    run = warm(target)
    for data in inputs:
        checked(run, data)


@pytest.mark.parametrize("target", TARGETS)
def test_some_mutations_of_kept_inputs_pass_too(target: str) -> None:
    run, random, inputs = warm(target), Random(1), kept(target)
    for _ in range(cases(60)):
        data = mutated(random, inputs)
        assert len(data) <= LONGEST
        checked(run, data)


def test_an_input_that_takes_too_long_breaks_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "CPU_S", 0.0)
    with pytest.raises(OverBoundError, match=r"2 bytes took .* of CPU"):
        checked(len, b"ab")


_MIB = 1024 * 1024


def _take_64_mib(_data: bytes) -> None:
    bytearray(64 * _MIB)


@pytest.mark.skipif(not os.access("/proc/self/clear_refs", os.W_OK), reason="no peak of memory can be reset")
def test_memory_is_noticed_after_a_greater_peak_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MEMORY_BYTES", 32 * _MIB)
    peak = bytearray(128 * _MIB)
    del peak
    checked(len, b"a")
    with pytest.raises(OverBoundError, match=r"1 bytes took 6\d{7} bytes of memory; at most 33554432"):
        checked(_take_64_mib, b"a")
