"""JSON documents read as those of the standard encoder, with a line for each entry."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from router.records.json_file import write_json

INTEGERS = st.integers(-(2**63), 2**64 - 1)
SCALARS = st.none() | st.booleans() | INTEGERS | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text() | INTEGERS, inner, max_size=4)
        | st.tuples(inner)
    ),
    max_leaves=20,
)


@given(VALUES)
def test_a_document_reads_as_that_of_the_standard_encoder(value: Any) -> None:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "a.json"
        write_json(path, value, durable=False)
        text = path.read_text(encoding="utf-8")
    assert json.loads(text) == json.loads(json.dumps(value))


def test_entries_have_a_line_each(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"name": "é", "1": {}, "links": [1, 2]})
    assert (tmp_path / "a.json").read_text() == (
        '{\n "name": "é",\n "1": {},\n "links": [\n  1,\n  2\n ]\n}\n'
    )
