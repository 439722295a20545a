"""JSON documents are those of the standard encoder, with a line for each outer entry."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from router.records.json_file import write_json

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
KEYS = st.text() | st.integers() | st.booleans() | st.none() | st.floats(allow_nan=False)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4) | st.tuples(inner),
    max_leaves=20,
)


@given(VALUES)
def test_a_document_reads_as_that_of_the_standard_encoder(value: Any) -> None:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "a.json"
        write_json(path, value, durable=False)
        text = path.read_text(encoding="utf-8")
    assert json.loads(text) == json.loads(json.dumps(value))


def test_the_entries_of_the_outer_two_containers_have_a_line_each(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"name": "r", "routers": {"0": {"MSG": [1, 2]}, "1": {}}, "links": []})
    assert (tmp_path / "a.json").read_text() == (
        '{\n "name": "r",\n "routers": {\n  "0": {"MSG": [1, 2]},\n  "1": {}\n },\n "links": []\n}\n'
    )
