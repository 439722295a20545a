"""The accounting on a standalone cluster whose workers have never seen the source tree."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from captures.accounting.account import account_directly
from captures.tables import TABLES
from testbed.experiments.config.load import find_experiment, load_experiment
from tests.support.cluster import CLUSTER_ENVIRONMENT, UNREACHABLE, running_cluster
from tests.support.paths import ROOT
from tests.support.run_folder import good_run
from tests.support.simulated import judged_run

pytestmark = [pytest.mark.spark, pytest.mark.root]

#: Accounts for a run as for a large one: executors read the captures, and write the tables.
DRIVER = """
import json, sys
from pathlib import Path
from captures.accounting import account as job
from captures.spark.session import spark_session

with spark_session(sys.argv[1]) as spark:
    job.SMALL_BYTES = 0
    summary = job.account(Path(sys.argv[2]), spark=spark)
    executors = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1
print(json.dumps({"summary": summary, "executors": executors}))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the cluster."""
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="module")
def cluster(folder: Path) -> Iterator[str]:
    """The URL of a master with two workers of one core, from whom the packages are hidden."""
    with running_cluster(folder) as url:
        yield url


def _python(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs Python as a driver of the cluster."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=CLUSTER_ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def test_a_cluster_gives_the_same_numbers(tmp_path: Path, cluster: str) -> None:
    """As DuckDB does (tests/spark/accounting), beside what only Spark has from tshark."""
    alone, spread = (good_run().write(tmp_path / name) for name in ("alone", "spread"))
    expected = account_directly(alone, lambda _: None)
    done = _python("-c", DRIVER, cluster, str(spread))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["executors"] == 2
    summary = found["summary"]
    assert summary["reconciliation"].pop("tshark") == {"expected": 32, "found": 32, "differences": []}
    for each in (expected, summary):
        del each["accounting_s"], each["rests_on"]
    assert summary == json.loads(json.dumps(expected))
    for name in TABLES:
        tables = [pq.read_table(run / "parquet" / name) for run in (alone, spread)]
        rows = [
            sorted(map(str, table.select(sorted(TABLES[name].schema.names)).to_pylist())) for table in tables
        ]
        assert rows[0] == rows[1], name


def test_workers_that_do_not_reach_the_run_are_reported_in_one_line(folder: Path, cluster: str) -> None:
    runs = folder / UNREACHABLE
    experiment = load_experiment(find_experiment("ring5"), {})
    run = judged_run(experiment, runs)
    done = _python("-m", "testbed.cli.main", "account", str(run.path), "--master", cluster)
    assert done.returncode == 3, done.stderr
    said = [line for line in done.stderr.splitlines() if "JAVA_TOOL_OPTIONS" not in line]
    assert len(said) == 1, said
    assert "manifest.json (No such file or directory); expected the run folder under the same path" in said[0]


def test_a_sweep_gives_the_same_table_on_a_cluster(tmp_path: Path, cluster: str) -> None:
    """The workers simulate and account with code that came with the job."""
    spec = tmp_path / "s.toml"
    spec.write_text(
        'experiment = "ring5"\nseeds = 2\n[grid]\n"routing.scheme" = ["pif", "flooding"]\n', encoding="utf-8"
    )
    tables: list[bytes] = []
    for master in ("local[2]", cluster):
        runs = tmp_path / f"runs-{len(tables)}"
        done = _python("-m", "testbed.cli.main", "sweep", str(spec), "--runs", str(runs), "--master", master)
        assert done.returncode == 0, done.stdout + done.stderr
        tables.append((runs / "sweeps" / "s" / "runs.parquet").read_bytes())
    assert tables[0] == tables[1]
