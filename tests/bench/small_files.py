"""A folder of small captures: CPU of a file, each decoded alone (as before) and many decoded together."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pyarrow as pa

from captures.datasource.formats import CaptureReader, CbcbSource, PcapSource
from captures.datasource.views import FRAMES, PACKETS, TRAFFIC, View
from captures.frames.parts import FilePart
from tests.support.run_folder import good_run, pcap_bytes

_ROUNDS = 3
_TABLES = ((PcapSource, PACKETS), (CbcbSource, FRAMES), (CbcbSource, TRAFFIC))


def main(files: int = 1_000, packets: int = 10) -> None:
    with tempfile.TemporaryDirectory(prefix="cbcb-bench-") as made:
        data = pcap_bytes(good_run().pcaps["host-1"][:packets])
        for number in range(files):
            Path(made, f"c{number:06}.pcap").write_bytes(data)
        for source, table in _TABLES:
            options, view = source({"path": made, "view": table}).options_and_view()
            parts = [part for group in CaptureReader(options, view).partitions() for part in group.parts]
            ways = {"alone": partial(_alone, view, parts), "together": partial(view.read_all, parts)}
            counts: set[int] = set()
            for name, read in ways.items():
                # The first round may import numba.
                least = min(_cpu(read, counts) for _ in range(_ROUNDS))
                print(
                    f"{files} files of {packets} packets, format {source.name()}, view {table}, {name}: "
                    f"{least / files * 1e3:.3f} ms of CPU a file",
                    flush=True,
                )
            assert len(counts) == 1


def _alone(view: View, parts: Sequence[FilePart]) -> Iterator[pa.RecordBatch]:
    for part in parts:
        yield from view.read(part)


def _cpu(read: Callable[[], Iterable[pa.RecordBatch]], counts: set[int]) -> float:
    """The processor seconds of a way of reading; adds the number of its rows to `counts`."""
    started = time.process_time()
    batches = list(read())
    seconds = time.process_time() - started
    table = pa.Table.from_batches(batches)
    counts.add(sum(table.column("frames").to_pylist()) if "frames" in table.schema.names else table.num_rows)
    return seconds
