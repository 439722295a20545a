"""A sweep that is killed and continued, and the figure of alpha, on this machine and on two Spark workers.

The sweep is killed with SIGKILL, with all of its processes, when half of its runs have ended, and continued
by the same command. Its table must be that of a sweep that ran through, to the byte. The page of the figure
must be the same from both. Root: the packages are hidden from the workers, which get the code with the job.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from testbed.polling import wait_until
from tests.support.cluster import CLUSTER_ENVIRONMENT, running_cluster
from tests.support.command import CBCB
from tests.support.paths import ROOT

_SPEC = """\
experiment = "ring5"
seeds = {seeds}
[set]
duration_s = 30
[grid]
"routing.scheme" = ["pif", "drp"]
"""
_KILLED_S = 3_000.0


def main(runs: int = 200, seeds: int = 2) -> None:
    """Prints a line for each measurement.

    Args:
        runs: of the sweep.
        seeds: of the figure; 0: the sweep alone.
    """
    with tempfile.TemporaryDirectory(prefix="cbcb-bench-") as name:
        folder = Path(name)
        spec = folder / "resumed.toml"
        spec.write_text(_SPEC.format(seeds=max(1, runs // 2)))
        whole = _sweep(spec, folder / "whole", "local[2]", "sweep, local[2], not interrupted")
        with running_cluster(folder) as url:
            for master, where in (("local[2]", "local[2]"), (url, "two workers")):
                continued = _killed_and_continued(spec, folder / f"again-{where}", master, where, runs // 2)
                same = continued.read_bytes() == whole.read_bytes()
                print(f"sweep, {where}: table equal to the byte: {'yes' if same else 'NO'}", flush=True)
            if seeds == 0:
                return
            pages = []
            for master, where in (("local[2]", "local[2]"), (url, "two workers")):
                out = folder / f"page-{where}"
                line = ["figure", "alpha", "--size", "small", "--seeds", str(seeds), "-o", str(out)]
                _run([*line, "--runs", str(folder / f"figure-{where}")], master, f"figure alpha, {where}")
                pages.append((out / "alpha-small.md").read_bytes())
            print(f"figure alpha: pages equal: {'yes' if pages[0] == pages[1] else 'NO'}", flush=True)


def _command(arguments: list[str], master: str) -> list[str]:
    return [*CBCB, *arguments, "--master", master]


def _run(arguments: list[str], master: str, text: str) -> None:
    started = time.perf_counter()
    done = subprocess.run(
        _command(arguments, master),
        cwd=ROOT,
        env=CLUSTER_ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    # A figure has the status 1 if a statement does not hold, a sweep if a verdict does not.
    if done.returncode > (arguments[0] == "figure"):
        raise SystemExit(f"{text}: status {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    print(f"{text}: {time.perf_counter() - started:.1f} s", flush=True)


def _sweep(spec: Path, runs: Path, master: str, text: str) -> Path:
    _run(["sweep", str(spec), "--runs", str(runs)], master, text)
    return runs / "sweeps" / "resumed" / "runs.parquet"


def _killed_and_continued(spec: Path, runs: Path, master: str, where: str, kill_at: int) -> Path:
    rows = runs / "sweeps" / "resumed" / "rows"
    process = subprocess.Popen(
        _command(["sweep", str(spec), "--runs", str(runs)], master),
        cwd=ROOT,
        env=CLUSTER_ENVIRONMENT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )

    def too_few() -> str | None:
        if process.poll() is not None:
            return None
        ended = len(list(rows.glob("*.json")))
        return None if ended >= kill_at else f"{ended} runs have ended"

    try:
        wait_until(too_few, _KILLED_S, f"{kill_at} runs")
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    ended = {row: row.stat().st_mtime_ns for row in rows.glob("*.json")}
    table = _sweep(spec, runs, master, f"sweep, {where}, continued after {len(ended)} runs")
    repeated = sum(row.stat().st_mtime_ns != before for row, before in ended.items())
    print(f"sweep, {where}: {repeated} of {len(ended)} ended runs repeated", flush=True)
    return table
