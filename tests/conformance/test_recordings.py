"""Recordings of live routers: the core still answers as it did then, line by line.

A case is a folder with the recording of one router and expected.txt, its events and answers for people.
`python tests/conformance/test_recordings.py CASE` prints a new expected.txt.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from router.recording.actions import describe_actions, encode_actions
from router.recording.events import describe_event
from router.recording.file import Recording
from router.recording.replay import check, describe

CASES = sorted(Path(__file__).parent.glob("*/*.rec"))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.parent.name)
def test_a_live_router_is_replayed(path: Path) -> None:
    replayed = check(path)
    assert (replayed.difference, replayed.cut) == (None, None)
    assert replayed.inputs > 50
    expected = (path.parent / "expected.txt").read_text().splitlines()
    assert list(describe(Recording(path))) == expected
    # Not only the recording has these answers: the core gives them.
    again, router = [], Recording(path).origin.router()
    for given in Recording(path).inputs():
        event, actions = given.event, router.handle(given.event, given.at)
        again.append(f"{given.t_ns} {describe_event(event)}")
        again += [f"    {line}" for line in describe_actions(event, encode_actions(event, actions))]
    assert again == expected


if __name__ == "__main__":
    print("\n".join(describe(Recording(next(Path(sys.argv[1]).glob("*.rec"))))))
