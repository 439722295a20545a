"""`python -m tests.fuzz.run TARGET SECONDS FOLDER`: fuzzes one target; ends with 0 if it found nothing.

With atheris (the extra `fuzz`) the engine is libFuzzer, guided by the coverage of the target's packages.
Without it, inputs of the corpus are mutated at random. New inputs and what fails are files of FOLDER. The
last line of the standard output is a JSON object: engine, runs, inputs of the corpus, coverage, features.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from tests.fuzz.corpus import kept
from tests.fuzz.targets import LONGEST, TARGETS, Run

if TYPE_CHECKING:
    from captures.pcap.compiling import Loop

#: Wall seconds of one input, and megabytes of the process, at most.
_INPUT_S, _MEMORY_MB = 60, 4096
#: Runs `guided` in a process of its own.
ENGINE = "import sys; from tests.fuzz.run import guided; guided(*sys.argv[1:])"
_STATE = re.compile(r"#(\d+)\s.*?(?:cov: (\d+) )?(?:ft: (\d+) )?corp: (\d+)")


def fuzz(target: str, seconds: int, folder: Path) -> tuple[int, dict[str, object]]:
    """Fuzzes a target.

    Returns 0 if nothing failed, and the figures of the run.
    """
    corpus = folder / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(kept(target)):
        (corpus / f"kept-{number:04}").write_bytes(data)
    if find_spec("atheris") is None:
        return _at_random(target, seconds, folder)
    command = [sys.executable, "-c", ENGINE, target, str(seconds), str(folder)]
    # libFuzzer ends its process without what is to be done at its end: the files of a target are left behind.
    shm = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="cbcb-fuzz-", dir=shm if shm.is_dir() else None) as files:
        environment = {**os.environ, "TMPDIR": files}
        process = subprocess.run(command, capture_output=True, text=True, errors="replace", env=environment)
    log = process.stdout + process.stderr
    (folder / "log").write_text(log)
    states = _STATE.findall(log)
    executed = re.findall(r"number_of_executed_units: (\d+)", log)
    runs, coverage, features, inputs = states[-1] if states else ("0", "0", "0", "0")
    return process.returncode, {
        "engine": "atheris",
        "runs": int(executed[-1] if executed else runs),
        "inputs": int(inputs),
        "coverage": int(coverage or 0),
        "features": int(features or 0),
    }


def guided(target: str, seconds: str, folder: str) -> None:
    """Lets libFuzzer run a target in this process, which it ends."""
    import atheris

    chosen = TARGETS[target]
    # Numba compiles no code that is instrumented.
    loops = _compiled(chosen.loops)
    with atheris.instrument_imports(include=list(chosen.packages)):
        run = chosen.make()
        _warm(run, target)
    for loop in loops:
        loop.plain = atheris.instrument_func(loop.plain)
    from tests.fuzz.bounds import checked

    arguments = [
        *(sys.argv[0], f"{folder}/corpus", f"-max_total_time={seconds}", f"-max_len={LONGEST}"),
        *(f"-timeout={_INPUT_S}", f"-rss_limit_mb={_MEMORY_MB}", f"-artifact_prefix={folder}/failed-"),
        *("-print_final_stats=1", "-len_control=50"),
    ]
    atheris.Setup(arguments, lambda data: checked(run, data))
    # libFuzzer ends by exit() with the interpreter locked: threads of Arrow may wait for the lock, and exit()
    # for them. So this handler, which is the first to be called with the status, ends the process.
    libc = ctypes.CDLL(None)
    libc.on_exit(libc._exit, None)
    atheris.Fuzz()


def _compiled(names: Iterable[str]) -> list[Loop]:
    """The loops of some modules, compiled."""
    from captures.pcap.compiling import Loop

    modules = [import_module(name) for name in names]
    found = [each for module in modules for each in vars(module).values() if isinstance(each, Loop)]
    for loop in found:
        _ = loop.compiled
    return found


def _warm(run: Run, target: str) -> None:
    """Lets a target import what it imports late, and compile what it compiles."""
    for data in (b"", bytes(64), bytes(range(256)), *kept(target)):
        run(data)


def _at_random(target: str, seconds: int, folder: Path) -> tuple[int, dict[str, object]]:
    from tests.fuzz.bounds import checked

    run, random = TARGETS[target].make(), Random(time.time_ns())
    _warm(run, target)
    signal.signal(signal.SIGALRM, _too_late)
    inputs = kept(target) or [b""]
    runs, until = 0, time.monotonic() + seconds
    figures: dict[str, object] = {"engine": "random", "inputs": len(inputs)}
    while time.monotonic() < until:
        data = mutated(random, inputs)
        runs += 1
        # As libFuzzer does: an input that waits takes no CPU.
        signal.alarm(_INPUT_S)
        try:
            checked(run, data)
        except Exception as error:
            signal.alarm(0)
            (folder / "failed-input").write_bytes(data)
            (folder / "log").write_text(f"{type(error).__name__}: {error}\n")
            return 1, {**figures, "runs": runs}
        signal.alarm(0)
    return 0, {**figures, "runs": runs}


def _too_late(_number: int, _frame: object) -> None:
    raise TimeoutError(f"an input took {_INPUT_S} s of wall time")


def mutated(random: Random, inputs: list[bytes]) -> bytes:
    """An input with some changes: bytes, bits, pieces cut out, inserted, doubled or taken from another."""
    data = bytearray(random.choice(inputs))
    for _ in range(random.choice((1, 1, 2, 4, 8))):
        at = random.randrange(len(data) + 1)
        change = random.randrange(6)
        if change == 0:
            data[at : at + 1] = random.randbytes(1)
        elif change == 1 and at < len(data):
            data[at] ^= 1 << random.randrange(8)
        elif change == 2:
            del data[at : at + random.randint(1, 16)]
        elif change == 3:
            data[at:at] = random.randbytes(random.randint(1, 16))
        elif change == 4:
            data[at:at] = data[at : at + random.randint(1, 64)]
        else:
            other = random.choice(inputs)
            start = random.randrange(len(other) + 1)
            data[at:at] = other[start : start + random.randint(1, 64)]
    return bytes(data[:LONGEST])


def main() -> int:
    target, seconds, folder = sys.argv[1:]
    status, figures = fuzz(target, int(seconds), Path(folder))
    print(json.dumps(figures))
    return status


if __name__ == "__main__":
    sys.exit(main())
