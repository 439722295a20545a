"""`./run.sh test` that its user interrupts."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

from tests.support.paths import ROOT
from tests.support.polling import poll

#: As pytest does: it notes that it was started, and ends in order by Ctrl-C.
_PYTEST = f"""#!{sys.executable}
import os, signal, sys
signal.signal(signal.SIGINT, lambda *_: sys.exit(2))
with open("started", "a") as file:
    print(os.getpid(), file=file)
signal.pause()
"""


def test_ctrl_c_ends_all_tests_and_starts_none(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("ruff", "mypy", "codespell", "pytest"):
        (tools / name).write_text(_PYTEST if name == "pytest" else "#!/bin/sh\n")
        (tools / name).chmod(0o755)
    functions = (ROOT / "run.sh").read_text(encoding="utf-8").partition("\ncase ${1-} in")[0]
    place = shlex.quote(str(tmp_path))
    script = tmp_path / "run.sh"
    script.write_text(f"{functions}\nroot={place} venv={place}\nrun_tests\n", encoding="utf-8")
    tests = subprocess.Popen(["bash", script], stdout=subprocess.DEVNULL, start_new_session=True)
    started = tmp_path / "started"

    def both() -> list[str] | None:
        lines = started.read_text().splitlines() if started.exists() else []
        return lines if len(lines) == 2 else None

    processes = poll(both, 60, "both parts of the tests have begun")
    os.killpg(tests.pid, signal.SIGINT)
    assert tests.wait(60) == 130
    assert started.read_text().splitlines() == processes
    assert not [each for each in processes if Path("/proc", each).exists()]
