"""The corpus of the fuzzer, within its bounds of time and memory, and the mutations of the engine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz import bounds
from tests.fuzz.bounds import OverBoundError, checked
from tests.fuzz.corpus import kept
from tests.fuzz.run import mutated
from tests.fuzz.targets import LONGEST, TARGETS, Run
from tests.support.paths import ROOT


def _warm(target: str) -> Run:
    """A target that has imported and compiled what its inputs need: none of them pays for that."""
    run = TARGETS[target].make()
    for data in kept(target):
        run(data)
    return run


@pytest.mark.parametrize("target", TARGETS)
def test_every_kept_input_passes_within_its_bounds(target: str) -> None:
    inputs = kept(target)
    assert inputs
    run = _warm(target)
    for data in inputs:
        checked(run, data)


@pytest.mark.parametrize("target", TARGETS)
def test_some_mutations_of_kept_inputs_pass_too(target: str) -> None:
    run, random, inputs = _warm(target), Random(1), kept(target)
    for _ in range(60):
        data = mutated(random, inputs)
        assert len(data) <= LONGEST
        checked(run, data)


def _spliced(data: bytes, cuts: list[tuple[int, int, bytes]]) -> bytes:
    """An input in which bytes were replaced by others: at a place, so many, by these."""
    for at, length, by in cuts:
        start = at % (len(data) + 1)
        data = data[:start] + by + data[start + length :]
    return data[:LONGEST]


@pytest.mark.parametrize("target", TARGETS)
def test_inputs_of_hypothesis_pass_too(target: str) -> None:
    run, inputs = _warm(target), kept(target)
    cut = st.tuples(st.integers(0, LONGEST), st.integers(0, 16), st.binary(max_size=16))
    spliced = st.builds(_spliced, st.sampled_from(inputs), st.lists(cut, max_size=6))

    @settings(max_examples=40, deadline=None)
    @given(st.binary(max_size=256) | spliced)
    def pass_within_bounds(data: bytes) -> None:
        checked(run, data)

    pass_within_bounds()


def test_an_input_that_takes_too_long_breaks_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "CPU_S", 0.0)
    with pytest.raises(OverBoundError, match=r"2 bytes took .* of CPU"):
        checked(len, b"ab")


def test_an_input_that_takes_too_much_memory_breaks_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    # As if the process had grown: the allocations of the input alone decide.
    monkeypatch.setattr(bounds, "MEMORY_BYTES", -1)
    with pytest.raises(OverBoundError, match=r"1 bytes took .* bytes of memory"):
        checked(len, b"a")


def test_the_files_of_a_target_end_with_its_process() -> None:
    code = "from tests.fuzz.targets import _folder; made = _folder(); (made / 'file').touch(); print(made)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert "cbcb-fuzz-" in done.stdout
    assert not Path(done.stdout.strip()).exists()
