"""The stages of an accounting."""

from __future__ import annotations

import pytest

from captures.accounting.steps import Stages


def test_stages_are_reported_and_kept() -> None:
    lines: list[str] = []
    stages = Stages(lines.append, expected=3)
    with stages.stage("frames"):
        with stages.stage("talkers"):
            pass
        with pytest.raises(ValueError, match="no totals"), stages.stage("totals"):
            raise ValueError("no totals")
    assert lines == [
        "0 of 3 stages; frames",
        "0 of 3 stages; frames, talkers",
        "1 of 3 stages; frames",
        "1 of 3 stages; frames, totals",
        "2 of 3 stages; frames",
        "3 of 3 stages",
    ]
    record = stages.record("spark", "local[2]")
    assert (record["engine"], record["master"]) == ("spark", "local[2]")
    assert [stage["name"] for stage in record["stages"]] == ["frames", "talkers", "totals"]
    assert record["seconds"] >= record["stages"][0]["seconds"] >= record["stages"][1]["seconds"] >= 0
