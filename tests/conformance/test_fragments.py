"""Predicates that outgrow a frame: fragments that overtake each other, come twice, or get lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from router.predicates.parser import parse_predicate
from router.wire.codec import fragment, read_frame
from router.wire.frames import Frame, FrameType
from router.wire.intake import Reassembler

CASES = sorted(path.parent for path in Path(__file__).parent.glob("*/fragments.json"))


def play(given: dict[str, Any]) -> list[dict[str, int]]:
    wanted = parse_predicate(" or ".join(f'name = "receiver {n}"' for n in range(given["filters"])))
    advertisement = Frame(FrameType.RA, 7, 1, 1, 64, wanted)
    payloads = fragment(advertisement, given["mtu"])
    reassembler = Reassembler()
    records = []
    for step in given["steps"]:
        if step.get("expire"):
            reassembler.expire(step["at"])
        found = [reassembler.add(3, payloads[index], step["at"]) for index in step.get("fragments", ())]
        frames = [read_frame(*whole) for whole in found if whole is not None]
        assert all(frame == advertisement for frame in frames)
        counts = {"whole": len(frames), "held": len(reassembler), "expired": reassembler.expired}
        records.append({"fragments": len(payloads), **counts})
    return records


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_fragments(case: Path) -> None:
    given = json.loads((case / "fragments.json").read_text())
    assert play(given) == given["expected"]
