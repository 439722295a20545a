"""The lines of the application socket, and a routing table as JSON, written in steps."""

from __future__ import annotations

import json

import pytest

from router.predicates.encoded.model import ENCODED_EVERYTHING
from router.predicates.model import NOTHING, Constraint, Filter, Operator, Predicate, Type
from router.predicates.parser import parse_predicate
from router.predicates.printer import format_filter
from router.protocol.scheme import Row, TablePart
from router.runtime.json_lines import EncodedJson, json_line, rows_in_steps


def _written(rows: list[Row]) -> tuple[EncodedJson, int]:
    """The rows as the steps make them, and the number of steps."""
    steps = rows_in_steps(rows)
    count = 1
    while True:
        try:
            next(steps)
            count += 1
        except StopIteration as end:
            return end.value, count


def _texts(count: int, length: int = 1) -> Predicate:
    return Predicate(
        tuple(
            Filter((Constraint("s", Type.STRING, Operator.SUBSTRING, f'{number}"\\é\n' + "x" * length),))
            for number in range(count)
        )
    )


@pytest.mark.parametrize(
    "content",
    [{}, {"a": 1}, {"a": EncodedJson([b"[1,", b"2]"])}, {"a": 1, "b": EncodedJson([b"2"]), "c": "é"}],
)
def test_a_line_with_encoded_values_is_the_object(content: dict[str, object]) -> None:
    line = json_line(content)
    expected = {
        name: json.loads(b"".join(value.parts)) if isinstance(value, EncodedJson) else value
        for name, value in content.items()
    }
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert json.loads(line) == expected


def test_rows_are_written_as_they_are_as_json() -> None:
    rows = [
        Row(0, "", parse_predicate('x = 1 or s =* "a"'), TablePart.LOCAL),
        Row(1, "sources 1 2", _texts(1_000), sources=(1, 2), copies=True),
        Row(None, "destination 3", NOTHING, TablePart.RIB),
        Row(2, "", ENCODED_EVERYTHING),
    ]
    written, _ = _written(rows)
    line = json_line({"ok": True, "table": written})
    assert json.loads(line) == {"ok": True, "table": [row.as_json() for row in rows]}
    assert json.loads(json_line({"table": _written([])[0]})) == {"table": []}


@pytest.mark.parametrize(("count", "length"), [(2_000, 1), (50, 60_000)])
def test_a_step_writes_a_bounded_part_of_a_row(
    count: int, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    characters = [0]

    def counted(filter_: Filter) -> str:
        text = format_filter(filter_)
        characters[-1] += len(text)
        return text

    monkeypatch.setattr("router.runtime.json_lines.format_filter", counted)
    steps = rows_in_steps([Row(1, "", _texts(count, length))])
    for _ in steps:
        characters += (0,)
    assert sum(characters) > count * length
    # A filter has about 20 characters beside its text; 160 characters weigh one.
    assert max(characters) <= max(200 * 160, length + 20)
