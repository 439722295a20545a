"""A folder of small captures in format `pcap`: CPU of a file, each decoded alone and many together."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from captures.datasource.formats import CaptureReader, PcapSource
from tests.support.run_folder import good_run, pcap_bytes

_ROUNDS = 3


def main(files: int = 1_000, packets: int = 10) -> None:
    with tempfile.TemporaryDirectory(prefix="cbcb-bench-") as made:
        data = pcap_bytes(good_run().pcaps["host-1"][:packets])
        for number in range(files):
            Path(made, f"c{number:06}.pcap").write_bytes(data)
        options, view = PcapSource({"path": made}).options_and_view()
        parts = [part for group in CaptureReader(options, view).partitions() for part in group.parts]
        ways: dict[str, Callable[[], list[pa.RecordBatch]]] = {
            "alone": lambda: [batch for part in parts for batch in view.read(part)],
            "together": lambda: list(view.read_all(parts)),
        }
        rows = set()
        for name, read in ways.items():
            best = float("inf")
            for _ in range(_ROUNDS):
                started = time.process_time()
                rows.add(sum(batch.num_rows for batch in read()))
                best = min(best, time.process_time() - started)
            print(f"{files} files of {packets} packets, {name}: {best / files * 1e3:.3f} ms of CPU a file")
        assert len(rows) == 1
