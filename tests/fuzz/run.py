"""`python -m tests.fuzz.run TARGET SECONDS FOLDER`: fuzzes one target; ends with 0 if it found nothing.

With atheris (the extra `fuzz`) the engine is libFuzzer, guided by the coverage of the target's packages.
Without it, inputs of the corpus are mutated at random. New inputs and what fails are files of FOLDER. The
last line of the standard output is a JSON object: engine, runs, inputs of the corpus, coverage.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import signal
import subprocess
import sys
import time
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from tests.fuzz.bounds import checked
from tests.fuzz.corpus import kept
from tests.fuzz.inputs import LONGEST, Run, mutated
from tests.fuzz.targets import TARGETS

if TYPE_CHECKING:
    from captures.pcap.compiling import Loop

#: Wall seconds of one input, and megabytes of the process, at most.
_INPUT_S, _MEMORY_MB = 60, 4096
#: Runs `guided` in a process of its own.
_ENGINE = "import sys; from tests.fuzz.run import guided; guided(*sys.argv[1:])"
_STATE = re.compile(r"#(\d+)\s.*?(?:cov: (\d+) )?(?:ft: \d+ )?corp: (\d+)")


def fuzz(target: str, seconds: int, folder: Path) -> tuple[int, dict[str, object]]:
    """Fuzzes a target.

    Returns 0 if nothing failed, and the figures of the run.
    """
    if find_spec("atheris") is None:
        return _at_random(target, seconds, folder)
    corpus = folder / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(kept(target)):
        (corpus / f"kept-{number:04}").write_bytes(data)
    command = [sys.executable, "-c", _ENGINE, target, str(seconds), str(folder)]
    # libFuzzer ends its process without what is to be done at its end: the files of a target are left behind.
    environment = {**os.environ, "TMPDIR": str(folder)}
    process = subprocess.run(command, capture_output=True, text=True, errors="replace", env=environment)
    log = process.stdout + process.stderr
    (folder / "log").write_text(log)
    runs, coverage, inputs = [("0", "0", "0"), *_STATE.findall(log)][-1]
    figures = {"runs": int(runs), "inputs": int(inputs), "coverage": int(coverage or 0)}
    return process.returncode, {"engine": "atheris", **figures}


def guided(target: str, seconds: str, folder: str) -> None:
    """Lets libFuzzer run a target in this process, which it ends."""
    import atheris

    chosen = TARGETS[target]
    # Numba compiles no code that is instrumented.
    loops = _compiled(chosen.loops)
    with atheris.instrument_imports(include=list(chosen.packages)):
        run = warm(target)
    for loop in loops:
        loop.plain = atheris.instrument_func(loop.plain)
    arguments = [
        *(sys.argv[0], f"{folder}/corpus", f"-max_total_time={seconds}", f"-max_len={LONGEST}"),
        *(f"-timeout={_INPUT_S}", f"-rss_limit_mb={_MEMORY_MB}", f"-artifact_prefix={folder}/failed-"),
        "-len_control=50",
    ]
    atheris.Setup(arguments, lambda data: checked(run, data))
    # libFuzzer ends by exit() with the interpreter locked: threads of Arrow may wait for the lock, and exit()
    # for them. So this handler, which is the first to be called with the status, ends the process.
    libc = ctypes.CDLL(None)
    libc.on_exit(libc._exit, None)
    atheris.Fuzz()


def _compiled(names: tuple[str, ...]) -> list[Loop]:
    """The loops of some modules, compiled."""
    from captures.pcap.compiling import Loop

    modules = map(import_module, names)
    found = [each for module in modules for each in vars(module).values() if isinstance(each, Loop)]
    for loop in found:
        _ = loop.compiled
    return found


def warm(target: str) -> Run:
    """A target that has imported and compiled what its inputs need: none of them pays for that."""
    run = TARGETS[target].make()
    for data in (b"", bytes(64), bytes(range(256)), *kept(target)):
        run(data)
    return run


def _at_random(target: str, seconds: int, folder: Path) -> tuple[int, dict[str, object]]:
    run, random, inputs, runs = warm(target), Random(time.time_ns()), kept(target) or [b""], 0
    until = time.monotonic() + seconds
    failed: Exception | None = None
    signal.signal(signal.SIGALRM, _too_late)
    while failed is None and time.monotonic() < until:
        data = mutated(random, inputs)
        runs += 1
        # As libFuzzer does: an input that waits takes no CPU.
        signal.alarm(_INPUT_S)
        try:
            checked(run, data)
        except Exception as error:
            failed = error
            (folder / "failed-input").write_bytes(data)
            (folder / "log").write_text(f"{type(error).__name__}: {error}\n")
        signal.alarm(0)
    return int(failed is not None), {"engine": "random", "inputs": len(inputs), "runs": runs}


def _too_late(_number: int, _frame: object) -> None:
    raise TimeoutError(f"an input took {_INPUT_S} s of wall time")


if __name__ == "__main__":
    status, figures = fuzz(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
    print(json.dumps(figures))
    sys.exit(status)
