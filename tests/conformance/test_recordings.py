"""Recordings of live routers: the core still answers as it did then, line by line.

A case is a folder with the recording of one router and expected.txt, its events and answers for people.
`python tests/conformance/test_recordings.py CASE` prints a new expected.txt.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from router.recording.file import Recording
from router.recording.replay import check, describe

CASES = sorted(Path(__file__).parent.glob("*/*.rec"))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.parent.name)
def test_a_live_router_is_replayed(path: Path) -> None:
    replayed = check(path)
    assert (replayed.difference, replayed.cut) == (None, None)
    assert replayed.inputs > 50
    assert list(describe(Recording(path))) == (path.parent / "expected.txt").read_text().splitlines()


if __name__ == "__main__":
    print("\n".join(describe(Recording(next(Path(sys.argv[1]).glob("*.rec"))))))
