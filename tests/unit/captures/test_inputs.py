"""The accounting of a run: its small files, its stages, and what it publishes together."""

from __future__ import annotations

import gzip
import json
import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from captures.accounting.account import account_directly
from captures.accounting.direct import Direct
from captures.accounting.inputs import Inputs
from captures.accounting.steps import Stages
from captures.rundir import RunLayout
from captures.rundir.capture_list import captured_bytes
from captures.rundir.files import RunFolderError
from captures.tables import TABLES, store
from captures.tables.document import EXAMPLES
from router.records.json_file import write_json
from router.wire.header import node_address
from tests.support.questions import ask
from tests.support.run_folder import START_NS, TIME_SCALE, RunBuilder, asked_run


def test_a_run_lasts_until_the_last_record_of_its_service(tmp_path: Path) -> None:
    builder = asked_run()
    run = RunLayout(builder.write(tmp_path / "run"))
    before = Inputs(run)
    record: dict[str, Any] = {"event": "unregister", "t_ns": builder.tick(100_000), "at_s": 0.0}
    record |= {"node": 1, "app": "app-1", "subscription": 1}
    run.service_folder.mkdir()
    run.service_records_of(1).write_text(json.dumps(record) + "\n")
    after = Inputs(run)
    assert after.log.last_ns == builder.now_ns > before.log.last_ns
    # 1,000 experiment seconds more, in at most 300 bins.
    assert after.clock.experiment_at(after.log.last_ns) > 100 * TIME_SCALE
    assert (before.bin_s, after.bin_s) == (0.1, 5.0)
    assert after.bins == 1 + after.clock.experiment_at(after.log.last_ns) // after.bin_s


def test_summary_and_tables_have_one_time_scale(tmp_path: Path) -> None:
    run = RunLayout(asked_run().write(tmp_path / "run"))
    (first,) = map(json.loads, run.clock.read_text().splitlines())
    later = {"t_ns": first["t_ns"] + 50_000_000, "experiment_s": 0.5, "rate": 3.0}
    run.clock.write_text(f"{json.dumps(first)}\n{json.dumps({**first, **later})}\n")
    with Direct(run.path, whole=True) as direct:
        (row,) = direct.table("run").to_pylist()
        assert direct.summary()["time_scale"] == row["time_scale"]
        assert 3.0 < row["time_scale"] < 10.0
        assert row["time_scale"] == pytest.approx(row["last_s"] * 1e9 / (row["last_ns"] - row["start_ns"]))


@pytest.mark.attack("hostile run folder")
@pytest.mark.parametrize("compress", [gzip.compress, lambda data: pa.compress(data, "zstd", asbytes=True)])
def test_a_compressed_capture_is_refused(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    run = RunLayout(asked_run().write(tmp_path / "run"))
    capture = run.capture("link-0-1")
    capture.write_bytes(compress(capture.read_bytes()))
    with pytest.raises(RunFolderError, match=r"link-0-1\.pcap: is compressed"):
        Inputs(run)


def test_a_capture_counts_as_large_as_it_is_read(tmp_path: Path) -> None:
    run = RunLayout(asked_run().write(tmp_path / "run"))
    entries = json.loads(run.captures.read_text())
    size = captured_bytes(run)
    run.capture("link-0-1").rename(run.path / "other")
    entries[0]["file"] = "other"
    run.captures.write_text(json.dumps(entries))
    assert captured_bytes(run) == size > 0
    run.captures.write_text(json.dumps(entries * 2))
    assert captured_bytes(run) == 2 * size


def test_stages_are_reported_and_kept() -> None:
    lines: list[str] = []
    shown = SimpleNamespace(update=lines.append, step=lambda name: lines.append(f"step {name}"))
    stages = Stages(shown, expected=3)
    with stages.stage("frames"):
        with stages.stage("talkers"):
            pass
        with pytest.raises(ValueError, match="no totals"), stages.stage("totals"):
            raise ValueError("no totals")
    assert lines == [
        "step frames",
        "0 of 3 stages; frames",
        "0 of 3 stages; frames, talkers",
        "1 of 3 stages; frames",
        "1 of 3 stages; frames, totals",
        "2 of 3 stages; frames",
        "step queries",
        "3 of 3 stages",
    ]
    record = stages.record("spark", "local[2]")
    assert (record["engine"], record["master"]) == ("spark", "local[2]")
    assert [stage["name"] for stage in record["stages"]] == ["frames", "talkers", "totals"]
    assert record["seconds"] >= record["stages"][0]["seconds"] >= record["stages"][1]["seconds"] >= 0


_WIDTH_S = 0.1


def test_percentiles_of_utilisation_are_over_busy_and_idle_bins(tmp_path: Path) -> None:
    built = RunBuilder()
    built.set_up()
    for number in range(1, 30):
        built.tick(10 + number)
        built.send(number, 50, [(0, [1])], text="x" * 30 * number)
    run = RunLayout(built.write(tmp_path / "run"))
    topology = json.loads(run.topology.read_text())
    topology["links"][0]["bandwidth_mbps"] = 2.0
    run.topology.write_text(json.dumps(topology))
    account_directly(run.path, lambda _: None)

    def bin_of(time_ns: int) -> int:
        return math.floor((time_ns - START_NS - 1_000_000) * TIME_SCALE / 1e9 / _WIDTH_S)

    carried: Counter[int] = Counter()
    for time_ns, data in built.pcaps["link-0-1"]:
        assert data[6:12] == node_address(0)
        carried[bin_of(time_ns)] += len(data)
    bits = [carried[number] * 8 * TIME_SCALE / _WIDTH_S for number in range(bin_of(built.now_ns) + 1)]
    assert 0 < sum(each == 0 for each in bits) < len(bits) - len(carried) + 1
    (sql,) = [sql for question, sql in EXAMPLES if question.startswith("Utilisation")]
    rows = ask(run.path, sql)
    found = {(row["link"], row["from_node"]): (row["p95"], row["bits_p95"]) for row in rows}
    p95 = np.percentile(bits, 95)
    assert p95 > 0
    assert found == {
        (0, 0): (pytest.approx(p95 / 2e6), pytest.approx(p95)),
        (0, 1): (0.0, 0.0),
        **{(1, node): (None, 0.0) for node in (1, 2)},
    }


@pytest.fixture
def run(tmp_path: Path) -> RunLayout:
    """A run whose accounting and summary are of an older one."""
    run = RunLayout(asked_run().write(tmp_path / "run"))
    account_directly(run.path, lambda summary: write_json(run.summary, summary))
    run.accounting.write_text('{"engine": "older"}')
    run.summary.write_text('{"verdict": "older"}')
    return run


def _engines(run: RunLayout) -> list[str]:
    """The engines that the record of the accounting and the summary name."""
    of_tables = json.loads(run.accounting.read_text())
    of_summary = json.loads(run.summary.read_text())
    return [of_tables["engine"], of_summary.get("rests_on", {}).get("engine", of_summary["verdict"])]


def test_the_record_of_the_accounting_is_in_place_before_the_summary(run: RunLayout) -> None:
    seen = []

    def publish(summary: dict[str, Any]) -> None:
        seen.append(_engines(run))
        write_json(run.summary, summary)
        seen.append(_engines(run))

    account_directly(run.path, publish)
    assert seen == [["duckdb", "older"], ["duckdb", "duckdb"]]
    assert _engines(run) == ["duckdb", "duckdb"]
    assert store.lacking(run.path, ()) is None


def test_a_summary_that_cannot_be_written_leaves_the_older_record(run: RunLayout) -> None:
    def publish(_summary: dict[str, Any]) -> None:
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        account_directly(run.path, publish)
    assert _engines(run) == ["older", "older"]
    assert store.lacking(run.path, TABLES) is None
    assert [path.name for path in run.path.glob("parquet*")] == ["parquet"]


@pytest.mark.parametrize("written", [False, True])
def test_an_end_while_the_summary_is_written_leaves_no_older_record(run: RunLayout, written: bool) -> None:
    def publish(summary: dict[str, Any]) -> None:
        if written:
            write_json(run.summary, summary)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        account_directly(run.path, publish)
    assert _engines(run) == ["duckdb", "duckdb" if written else "older"]
    assert "the accounting was interrupted" in str(store.lacking(run.path, ()))
