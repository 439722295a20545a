"""Views of CBCB frames on one core, by the codec and by compiled code: frames a second.

The frames are in the captures of a line of routers, one for each link: MSG (17 of 20), RA (2) and SR (1), 82
bytes each. The integers of messages and predicates are drawn with a seed, each for four frames.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.compute as pc

from captures.datasource.formats import CaptureReader
from captures.datasource.opening import view_of
from captures.rundir import RunLayout
from router.predicates import Constraint, Filter, Message, Operator, Predicate, Type
from router.wire.frames import Body, FrameType, SenderRequest
from tests.support.compiled_loops import loops
from tests.support.wire_conversation import frame, of_router
from tests.support.wire_tshark import write_capture
from topos.generators import line
from topos.loaders import to_json

_LINKS = 8
_START_NS, _SPAN_NS = 1_700_000_000_000_000_000, 60_000_000_000
_FRAME_BYTES = 82
_VIEWS = {
    "all columns": {},
    "three columns of headers": {"columns": "link,type,time_ns"},
    "view traffic": {"view": "traffic"},
}


def main(frames: int = 1_000_000, rounds: int = 4) -> None:
    """Prints the best of `rounds`, and the codec's one round with a part of the frames."""
    with tempfile.TemporaryDirectory(prefix="cbcb-bench-") as made:
        run = RunLayout(Path(made, "run"))
        run.captures_folder.mkdir(parents=True)
        run.topology.write_text(to_json(line(_LINKS + 1)))
        for link in range(_LINKS):
            write_capture(run.capture(f"link-{link}-{link + 1}"), _frames(link, frames // _LINKS))
        _show("all columns, codec", [_read(run.capture("link-0-1"), {}, compiled=False)])
        for name, options in _VIEWS.items():
            # The first round loads, or compiles, the loops.
            _show(name, [_read(run.path, options, compiled=True) for _ in range(rounds + 1)][1:])


def _frames(link: int, count: int) -> Iterator[tuple[int, bytes]]:
    """The frames of a link, in both directions, with their times."""
    rng, drawn = random.Random(link), 0
    for number in range(count):
        if number % 4 == 0:
            drawn = rng.randrange(2**40)
        kind, body = _body(number % 20, drawn)
        data = of_router(link + number % 2, frame(kind, link, number // 4, body))
        yield _START_NS + number * (_SPAN_NS // count), data.ljust(_FRAME_BYTES, b"\0")


def _body(place: int, drawn: int) -> tuple[FrameType, Body]:
    if place < 17:
        return FrameType.MSG, Message({"n": drawn, "price": 0.25})
    if place < 19:
        return FrameType.RA, Predicate((Filter((Constraint("n", Type.INTEGER, Operator.LT, drawn),)),))
    return FrameType.SR, SenderRequest(250_000)


def _show(name: str, measured: list[tuple[int, float]]) -> None:
    frames, seconds = min(measured, key=lambda each: each[1])
    print(f"{name}: {frames} frames, {frames / seconds:,.0f} frames/s of CPU", flush=True)


def _read(path: Path, options: dict[str, str], *, compiled: bool) -> tuple[int, float]:
    """Returns the frames, and the processor seconds for reading and decoding."""
    view = view_of("cbcb", {"path": str(path), **options})
    parts = [part for group in CaptureReader(view).partitions() for part in group.parts]
    frames, started = 0, time.process_time()
    with loops(compiled=compiled):
        for batch in view.read_all(parts):
            counted = "frames" in batch.schema.names
            frames += pc.sum(batch.column("frames")).as_py() if counted else batch.num_rows
    return frames, time.process_time() - started
