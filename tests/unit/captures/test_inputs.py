"""The small files of a run, as the accounting reads them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from captures.accounting.direct import Direct
from captures.accounting.inputs import Inputs
from captures.rundir import RunLayout
from captures.rundir.capture_list import captured_bytes
from captures.rundir.files import RunFolderError
from tests.support.run_folder import TIME_SCALE, asked_run


def test_a_run_lasts_until_the_last_record_of_its_service(tmp_path: Path) -> None:
    builder = asked_run()
    run = RunLayout(builder.write(tmp_path / "run"))
    before = Inputs(run)
    record = {
        "event": "unregister",
        "t_ns": builder.tick(100_000),
        "node": 1,
        "app": "app-1",
        "subscription": 1,
        "at_s": 0.0,
    }
    run.service_folder.mkdir()
    run.service_records_of(1).write_text(json.dumps(record) + "\n")
    after = Inputs(run)
    assert after.log.last_ns == builder.now_ns > before.log.last_ns
    # 1,000 experiment seconds more, in at most 300 bins.
    assert after.clock.experiment_s(after.log.last_ns) > 100 * TIME_SCALE
    assert (before.bin_s, after.bin_s) == (0.1, 5.0)
    assert after.bins == 1 + after.clock.experiment_s(after.log.last_ns) // after.bin_s


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
