"""A whole emulation of `waxman1000`: times of bring-up and take-down, verdict, memory and CPU of each part.

`--nodes N` takes fewer nodes, `--framework os-ken` the controller's other framework. Memory is the
proportional set size (a page that n processes share counts 1/n in each), the most of all samples; the
machine's is all that was in use beyond the start, the kernel's devices and namespaces included.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import psutil

from captures.rundir import RunLayout
from captures.rundir.measures import read_timings
from testbed.support.usage import proportional_bytes
from tests.bench.kill_anywhere import PARTS

_SAMPLE_S = 30.0
_MIB = 1 << 20


class Sampler(threading.Thread):
    """Samples memory and CPU time of the descendants of a process, by part."""

    def __init__(self, root: int) -> None:
        super().__init__(daemon=True)
        self.over = threading.Event()
        self.most: Counter[str] = Counter()
        self.processes: Counter[str] = Counter()
        self.cpu_s: Counter[str] = Counter()
        self.machine = 0
        self._root = root
        self._free = psutil.virtual_memory().available

    def run(self) -> None:
        while not self.over.wait(_SAMPLE_S):
            self.sample()

    def sample(self) -> None:
        pids: dict[str, list[int]] = {}
        cpu: Counter[str] = Counter()
        with suppress(psutil.Error):
            root = psutil.Process(self._root)
            for process in [root, *root.children(recursive=True)]:
                with suppress(psutil.Error):
                    command = " ".join(process.cmdline())
                    part = next((part for part, word in PARTS.items() if word in command), "others")
                    pids.setdefault(part, []).append(process.pid)
                    times = process.cpu_times()
                    cpu[part] += times.user + times.system
        for part, members in pids.items():
            self.most[part] = max(self.most[part], proportional_bytes(members))
            self.processes[part] = max(self.processes[part], len(members))
            self.cpu_s[part] = max(self.cpu_s[part], cpu[part])
        self.machine = max(self.machine, self._free - psutil.virtual_memory().available)


def main(nodes: int = 1000, framework: str = "ryu") -> None:
    """Runs it in a temporary folder, and prints the table."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "testbed.cli.main", "run", "waxman1000", "--runs", folder]
        command += ["--topology", f"waxman,{nodes}", "--set", f'broadcast.framework="{framework}"']
        started = time.monotonic()
        with subprocess.Popen(command, env={**os.environ, "COLUMNS": "110"}) as run:
            sampler = Sampler(run.pid)
            sampler.start()
            status = run.wait()
            sampler.over.set()
            sampler.join()
        (run_dir,) = Path(folder).iterdir()
        timings = read_timings(RunLayout(run_dir))
        summary = json.loads(RunLayout(run_dir).summary.read_text())
    print(f"{nodes} routers, {2 * nodes} links: exit status {status}, verdict {summary['verdict']}")
    print(f"up {timings['bring_up_s']:.1f} s, down {timings['teardown_s']:.1f} s, ", end="")
    print(f"all {time.monotonic() - started:.0f} s")
    print(f"\n{'part':24} {'processes':>10} {'MiB':>9} {'CPU s':>9}")
    for part in (*PARTS, "others"):
        if sampler.processes[part]:
            memory = sampler.most[part] / _MIB
            print(f"{part:24} {sampler.processes[part]:10} {memory:9.0f} {sampler.cpu_s[part]:9.1f}")
    print(f"{'machine, at most':24} {'':10} {sampler.machine / _MIB:9.0f}")
