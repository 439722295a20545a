"""The corpus of the fuzzer, within its bounds of time and memory, and the mutations of the engine."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from random import Random
from threading import Thread

import pytest

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


def test_an_input_that_takes_too_long_breaks_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "CPU_S", 0.0)
    with pytest.raises(OverBoundError, match=r"2 bytes took .* of CPU"):
        checked(len, b"ab")


def test_an_input_that_takes_too_much_memory_breaks_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    # As if the process had grown: the allocations of the input alone decide.
    monkeypatch.setattr(bounds, "MEMORY_BYTES", -1)
    with pytest.raises(OverBoundError, match=r"1 bytes took .* bytes of memory"):
        checked(len, b"a")


_MIB = 1024 * 1024


def _take_64_mib(_data: bytes) -> None:
    bytearray(64 * _MIB)


@pytest.fixture(params=["peak of the process", "Python's objects"])
def small_bound(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A bound of 32 MiB, with each way to measure; the second is that of a container without clear_refs."""
    monkeypatch.setattr(bounds, "MEMORY_BYTES", 32 * _MIB)
    bounds._files.cache_clear()
    if request.param == "Python's objects":
        monkeypatch.setattr(bounds, "_PROCESS", tmp_path)
    elif not bounds.measures_the_process():
        pytest.skip("this kernel has no /proc/self/clear_refs, or it may not be written")
    request.addfinalizer(bounds._files.cache_clear)


@pytest.mark.usefixtures("small_bound")
def test_memory_is_noticed_after_a_greater_peak_of_the_process() -> None:
    peak = bytearray(128 * _MIB)
    del peak
    checked(len, b"a")
    with pytest.raises(OverBoundError, match=r"1 bytes took 6\d{7} bytes of memory; at most 33554432"):
        checked(_take_64_mib, b"a")


def test_the_time_of_other_threads_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "CPU_S", 0.2)

    def work() -> None:
        until = time.thread_time() + 0.3
        while time.thread_time() < until:
            pass

    def in_a_thread(_data: bytes) -> None:
        thread = Thread(target=work)
        thread.start()
        thread.join()

    with pytest.raises(OverBoundError, match=r"1 bytes took 0\.\d s of CPU"):
        checked(in_a_thread, b"a")


def test_the_files_of_a_target_end_with_its_process() -> None:
    code = (
        "from tests.fuzz.inputs import files_of_this_process as made_here\n"
        "made = made_here()\n(made / 'file').touch()\nprint(made)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert "cbcb-fuzz-" in done.stdout
    assert not Path(done.stdout.strip()).exists()
