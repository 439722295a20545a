"""Views of CBCB frames on one core, by the codec and by compiled code: frames a second."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import pyarrow.compute as pc

from captures.datasource.formats import CaptureReader, CbcbSource
from tests.bench.generated_captures import write_captures
from tests.support.compiled_loops import loops

_VIEWS = {
    "all columns": {},
    "three columns of headers": {"columns": "link,type,time_ns"},
    "view traffic": {"view": "traffic"},
}


def main(frames: int = 1_000_000, rounds: int = 4) -> None:
    """Prints the best of `rounds`, and the codec's one round with a part of the frames."""
    with tempfile.TemporaryDirectory(prefix="cbcb-bench-") as made:
        folder = Path(made, "run")
        first, *_ = write_captures(folder, frames)
        _show("all columns, codec", [_read(first, {}, compiled=False)])
        for name, options in _VIEWS.items():
            # The first round loads, or compiles, the loops.
            _show(name, [_read(folder, options, compiled=True) for _ in range(rounds + 1)][1:])


def _show(name: str, measured: list[tuple[int, float]]) -> None:
    frames, seconds = min(measured, key=lambda each: each[1])
    print(f"{name}: {frames} frames, {frames / seconds:,.0f} frames/s of CPU", flush=True)


def _read(path: Path, options: dict[str, str], *, compiled: bool) -> tuple[int, float]:
    """Returns the frames, and the processor seconds for reading and decoding."""
    options_of, view = CbcbSource({"path": str(path), **options}).options_and_view()
    parts = [part for group in CaptureReader(options_of, view).partitions() for part in group.parts]
    frames, started = 0, time.process_time()
    with loops(compiled=compiled):
        for batch in view.read_all(parts):
            counted = "frames" in batch.schema.names
            frames += pc.sum(batch.column("frames")).as_py() if counted else batch.num_rows
    return frames, time.process_time() - started
