"""JSON documents read as those of the standard encoder, with a line for each entry."""

from __future__ import annotations

from pathlib import Path

from router.records.json_file import write_json


def test_entries_have_a_line_each(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"name": "é", "1": {}, "links": [1, 2]})
    assert (tmp_path / "a.json").read_text() == (
        '{\n "name": "é",\n "1": {},\n "links": [\n  1,\n  2\n ]\n}\n'
    )
