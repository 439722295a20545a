"""How far searches of `compiled` are from the limits of a core.

Valgrind's callgrind counts what a search adds to the reading of a message, on a processor that it imitates:
instructions, wrongly predicted branches, and lines of 64 bytes that the first and the last cache lack. Times,
of the processor, and the rate at which it reads memory are medians on the real processor.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import numpy as np

from tests.bench.peers.measuring import Task

#: Valgrind knows no AVX-512.
_PROCESSOR = {"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": "+avx2,+bmi,+bmi2,+lzcnt,+popcnt,+sse4.2"}
_CALLGRIND = ("valgrind", "--tool=callgrind", "--instr-atstart=no", "--cache-sim=yes", "--branch-sim=yes")
_MESSAGES, _TIMES = 1_000, 7


def show_limits(cells: Iterable[object], seed: int) -> None:
    """Prints a row for each cell of the grid of `tests.bench.matching`."""
    memory = np.ones(1 << 26)
    rate = memory.nbytes / _seconds(memory.sum) / 1e9
    print(f"a core reads {rate:.1f} GB/s from memory; a search:")
    environment = {**os.environ, **_PROCESSOR}
    for cell in cells:
        code = "import tests.bench.matching_limit as limit; from tests.bench.matching import Cell, task_of\n"
        child = [sys.executable, "-c", f"{code}limit.search(task_of({cell}, ['compiled'], {seed}))"]
        # The first child stores the machine code that the second loads.
        us = float(subprocess.check_output(child, env=environment))
        with tempfile.TemporaryDirectory() as folder:
            command = [*_CALLGRIND, f"--callgrind-out-file={folder}/out", *child]
            subprocess.run(command, env=environment, check=True, capture_output=True)
            texts = [Path(folder, f"out.{part}").read_text("utf-8") for part in (2, 3)]
        names, idle, run = (
            re.search(rf"^{what}: (.*)$", text, re.MULTILINE)[1].split()  # type: ignore[index]
            for what, text in (("events", texts[0]), ("totals", texts[0]), ("totals", texts[1]))
        )
        each = {name: (int(b) - int(a)) / _MESSAGES for name, a, b in zip(names, idle, run, strict=True)}
        near, far = (0.064 * (each[f"{cache}mr"] + each[f"{cache}mw"]) for cache in ("D1", "DL"))
        print(
            f"{str(cell).partition(', engines')[0]}: {us:.1f} us, {each['Ir']:,.0f} instructions, "
            f"{each['Bc'] + each['Bi']:,.0f} branches, {each['Bcm'] + each['Bim']:,.0f} predicted wrongly, "
            f"{near:,.1f} kB into the first cache ({near / us:.2f} GB/s, {near / us / rate:.0%}), "
            f"{far:,.1f} kB from memory",
            flush=True,
        )


def search(task: Task) -> None:
    """Prints microseconds of a search; its counts are in the dumps of callgrind, if that runs this."""
    subject = task.make["compiled"](False)
    calls = [subject.prepare(*message) for message in task.messages[:_MESSAGES]]

    def each(call: Callable[..., object]) -> None:
        for prepared in calls:
            call(*prepared)

    idle_s, run_s = (_seconds(partial(each, call)) for call in (subject.idle, subject.run))
    print(1e6 * (run_s - idle_s) / _MESSAGES)
    # A first run fills the caches.
    for option, call in zip(
        ("--instr=on", "--dump", "--dump", "--dump"), (subject.run, subject.idle) * 2, strict=True
    ):
        subprocess.run(["callgrind_control", option, str(os.getpid())], check=False, capture_output=True)
        each(call)


def _seconds(call: Callable[[], object]) -> float:
    times = []
    for _ in range(_TIMES):
        begun = time.process_time()
        call()
        times.append(time.process_time() - begun)
    return float(np.median(times))
