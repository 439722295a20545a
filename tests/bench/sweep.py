"""A sweep of simulations of the default experiment: the time of a run, and two cores beside one.

Each run is a task of Spark that simulates, judges and accounts for half an hour of 20 nodes. The sweep is run
twice, as `cbcb sweep` runs it, with one worker and with two; the wall times have the start of Spark in them.
"""

from __future__ import annotations

import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import pyarrow.parquet as pq

from tests.support.command import CBCB
from tests.support.paths import ROOT

_SPEC = 'experiment = "default"\nseeds = {runs}\n'


def main(runs: int = 1000) -> None:
    """Prints a line for each number of workers, and their ratio.

    Args:
        runs: of each sweep, with seeds 1 to `runs`.
    """
    with tempfile.TemporaryDirectory(prefix="cbcb-bench-") as name:
        folder = Path(name)
        spec = folder / "thousand.toml"
        spec.write_text(_SPEC.format(runs=runs))
        one, two = (_timed(spec, folder / f"runs-{cores}", cores, runs) for cores in (1, 2))
    print(f"two cores, of the time of one: {two / one:.2f}; {one / two:.2f} times as fast", flush=True)


def _timed(spec: Path, folder: Path, cores: int, runs: int) -> float:
    """Runs the sweep, prints its costs, and returns its wall seconds."""
    line = [*CBCB, "sweep", str(spec), "--runs", str(folder), "--master", f"local[{cores}]"]
    started = time.perf_counter()
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)
    wall_s = time.perf_counter() - started
    # 1: the verdict on a run does not hold.
    if done.returncode > 1:
        raise SystemExit(f"status {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    swept = folder / "sweeps" / "thousand"
    table, costs = pq.read_table(swept / "runs.parquet"), pq.read_table(swept / "costs.parquet")
    holds = table["verdict"].to_pylist().count("holds")
    assert table.num_rows == runs, f"{table.num_rows} of {runs} runs"
    cpu, wall = (statistics.median(costs[key].to_pylist()) for key in ("cpu_s", "wall_s"))
    print(
        f"local[{cores}]: {runs} runs in {wall_s:.1f} s, {1000 * wall_s / runs:.0f} ms each; a run takes "
        f"{1000 * cpu:.0f} ms of CPU, {1000 * wall:.0f} ms in its task (medians); {holds} verdicts hold",
        flush=True,
    )
    return wall_s
