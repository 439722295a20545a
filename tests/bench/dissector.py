"""tshark with the dissector, in what it is asked to show, beside tshark without it."""

from __future__ import annotations

import resource
import subprocess
import tempfile
from pathlib import Path

from tests.support.wire_tshark import DISSECTOR, ETHERNET, write_capture
from tests.vectors.wire_vectors import WHOLE

_FRAMES = 20_000
_ROUNDS = 3
_MODES = {
    "count (-q -z io,stat,0)": ["-q", "-z", "io,stat,0"],
    "list (no option)": [],
    "one field (-T fields -e cbcb.type)": ["-T", "fields", "-e", "cbcb.type"],
    "all in text (-V)": ["-V"],
}


def _seconds(capture: Path, dissector: bool, arguments: list[str]) -> float:
    """The least processor time of some rounds."""
    script = ["-X", f"lua_script:{DISSECTOR}"] if dissector else []
    best = float("inf")
    for _ in range(_ROUNDS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        subprocess.run(
            ["tshark", "-n", *script, "-r", str(capture), *arguments],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=True,
        )
        best = min(best, resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before)
    return best


def main() -> None:
    """Prints processor time a frame, start-up left out."""
    payloads = [vector.payload for vector in WHOLE]
    with tempfile.TemporaryDirectory() as folder:
        few, many = Path(folder) / "few.pcap", Path(folder) / "many.pcap"
        frames = [(number, ETHERNET + payloads[number % len(payloads)]) for number in range(_FRAMES)]
        write_capture(few, frames[:1])
        write_capture(many, frames)
        print(f"{_FRAMES} frames: the vectors, in turn; us of processor time a frame")
        print(f"{'':36} {'with':>7} {'without':>8}")
        for mode, arguments in _MODES.items():
            bare = ["-T", "fields", "-e", "frame.number"] if "fields" in mode else arguments
            cost = []
            for dissector, words in ((True, arguments), (False, bare)):
                spent = _seconds(many, dissector, words) - _seconds(few, dissector, words)
                cost.append(spent / _FRAMES * 1e6)
            print(f"{mode:36} {cost[0]:7.1f} {cost[1]:8.1f}")
