"""All columns of CBCB frames, by the codec, by compiled code, and as Parquet: rows a second of CPU."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from captures.datasource.formats import CaptureReader, CbcbSource
from captures.datasource.parquet import _write_part
from captures.frames.decoder import FrameDecoder
from captures.frames.identity import CaptureIdentity
from captures.pcap.reader import PcapReader
from tests.bench.generated_captures import write_captures
from tests.support.compiled_loops import loops

_ROUNDS = 3


def main(frames: int = 1_000_000) -> None:
    with tempfile.TemporaryDirectory(prefix="cbcb-bench-") as made:
        files = write_captures(Path(made, "run"), frames)
        _decoded(files[:1], compiled=True)  # loads, or compiles, the loops
        for name, compiled, read in (("codec", False, files[:1]), ("compiled", True, files)):
            rounds = [_decoded(read, compiled=compiled) for _ in range(_ROUNDS if compiled else 1)]
            rows, seconds = min(rounds, key=lambda each: each[1])
            print(f"{name}: {rows} frames, {rows / seconds:,.0f} rows/s of CPU")
        rows, seconds = min((_to_parquet(Path(made)) for _ in range(_ROUNDS)), key=lambda each: each[1])
        print(f"compiled, to Parquet: {rows} frames, {rows / seconds:,.0f} rows/s of CPU")


def _to_parquet(folder: Path) -> tuple[int, float]:
    """Returns the rows, and the processor seconds for what a task of `write_parquet` does."""
    target = folder / "target"
    target.mkdir(exist_ok=True)
    options, view = CbcbSource({"path": str(folder / "run")}).options_and_view()
    parts = [part for group in CaptureReader(options, view).partitions() for part in group.parts]
    started = time.process_time()
    with loops(compiled=True):
        written = _write_part(str(target), str(target), view, parts, "snappy")
    return written.column("rows")[0].as_py(), time.process_time() - started


def _decoded(files: list[Path], *, compiled: bool) -> tuple[int, float]:
    """Returns the rows, and the processor seconds for reading and decoding."""
    rows, started = 0, time.process_time()
    with loops(compiled=compiled):
        for link, path in enumerate(files):
            decoder = FrameDecoder(CaptureIdentity(path.stem, "link", link=link, u=link, v=link + 1))
            for block in PcapReader(path).blocks():
                rows += decoder.decode(block).num_rows
    return rows, time.process_time() - started
